package consumer

import (
	"strings"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Headers of the copies. Those that every further copy keeps do not begin with x-, see
// [rabbitmq.Message.Copy].
const (
	RetryCountHeader       = "retry-count"       // how many retries the message has had
	ElsewhereCountHeader   = "elsewhere-count"   // how often another process had the lease
	DeferredCountHeader    = "deferred-count"    // how often the mail server deferred it
	FailureCodeHeader      = "failure-code"      // why it is a dead letter, from a small set
	FailureReasonHeader    = "failure-reason"    // why it was copied, for people
	FailedAtHeader         = "failed-at"         // when it was dead-lettered, by the database's clock, RFC 3339
	OriginalExchangeHeader = "original-exchange" // where it was published first
)

// Headers with which an operator says how a message is to be handled.
const (
	// ForcedHeader marks a message that is replayed although it is outside the dedupe window.
	ForcedHeader = "replay-forced"
	// ReplayedHeader marks a message that is replayed from the dead letters.
	ReplayedHeader = "replayed"
	// DecisionHeader has the id of the operator's decision to replay the message. A further copy
	// does not have it: if the message fails again, that was not decided.
	DecisionHeader = "x-operator-decision"
)

// counter reads a header that anyone may have written.
func counter(m rabbitmq.Message, header string) int {
	switch n := m.Headers[header].(type) {
	case int64:
		return int(max(0, n))
	case int32:
		return int(max(0, n))
	default:
		return 0
	}
}

// maxReason bounds the header failure-reason, in bytes.
const maxReason = 512

func truncate(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return strings.ToValidUTF8(reason, "")
}
