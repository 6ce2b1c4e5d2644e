package rabbitmq

import (
	"strings"
	"time"
)

// Headers of the copies. Those that every further copy keeps do not begin with x-, see
// [Message.Copy].
const (
	RetryCountHeader       = "retry-count"       // how many retries the message has had
	FirstFailedAtHeader    = "first-failed-at"   // by the handler's clock, RFC 3339; dead letters have none
	FailureCodeHeader      = "failure-code"      // why it is a dead letter, from a small set
	FailureReasonHeader    = "failure-reason"    // why it was copied, for people
	FailedAtHeader         = "failed-at"         // when it was dead-lettered, by the handler's clock, RFC 3339
	OriginalExchangeHeader = "original-exchange" // where it was published first
)

// The codes of the consumer's own dead letters.
const (
	CodeMalformed = "malformed"         // Queue.Check has refused it
	CodePermanent = "permanent"         // the handler has returned ErrPermanent
	CodePanicked  = "panicked"          // the handler panicked, until Queue.GiveUp
	CodeExhausted = "retries-exhausted" // it failed until Queue.GiveUp
)

// counter reads a header that anyone may have written.
func counter(m Message, header string) int64 {
	switch n := m.Headers[header].(type) {
	case int64:
		return max(0, n)
	case int32:
		return max(0, int64(n))
	default:
		return 0
	}
}

// timeOf reads a header that anyone may have written. A time in the future counts as now.
func timeOf(m Message, header string, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, text(m.Headers[header]))
	if err != nil || at.After(now) {
		return now
	}
	return at
}

// maxReason bounds the header failure-reason, in bytes.
const maxReason = 512

func truncate(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return strings.ToValidUTF8(reason, "")
}
