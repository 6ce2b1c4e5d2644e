package deadletter

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// DeadLetter is a dead letter, without its body.
type DeadLetter struct {
	Key        string     `json:"-"` // see keyOf
	ID         string     `json:"id"`
	RoutingKey string     `json:"routing_key"`
	Code       string     `json:"failure_code"`
	Reason     string     `json:"failure_reason"`
	FailedAt   *time.Time `json:"failed_at"`
	Age        *float64   `json:"age_seconds"` // since FailedAt, by this machine's clock
	Retries    int64      `json:"retry_count"`
	Size       int        `json:"size"` // of the body, in bytes
}

// unknown is the code of a message that neither the consumer nor the broker has dead-lettered.
const unknown = "unknown"

// brokerReasons explains the codes of messages that the broker has moved itself.
var brokerReasons = map[string]string{
	"delivery-limit":  "delivered too often: each time its consumer died, or did not answer",
	"rejected":        "the consumer could not publish a copy of it with the reason",
	consumer.TooLarge: fmt.Sprintf("the body is larger than %d bytes: the consumer did not read it", rabbitmq.MaxBody),
}

// parse reads a dead letter. The consumer's copies have headers with the reason. The broker's
// messages have an x-death, which no copy has, and may have headers of earlier retries.
func parse(m rabbitmq.Message, now time.Time) DeadLetter {
	l := DeadLetter{ID: m.ID, RoutingKey: m.RoutingKey, Size: len(m.Body)}
	_, _ = fmt.Sscan(fmt.Sprint(m.Headers[consumer.RetryCountHeader]), &l.Retries) // if it is no number, there were none
	failed := time.Time{}
	if death, ok := m.Death(); ok {
		l.Code = strings.ReplaceAll(death.Reason, "_", "-")
		if l.Code == "rejected" && l.Size > rabbitmq.MaxBody {
			l.Code = consumer.TooLarge
		}
		l.Reason, failed = brokerReasons[l.Code], death.Time
	} else {
		l.Code = cmp.Or(text(m, consumer.FailureCodeHeader), unknown)
		l.Reason = text(m, consumer.FailureReasonHeader)
		failed, _ = time.Parse(time.RFC3339, text(m, consumer.FailedAtHeader))
	}
	if !failed.IsZero() && failed.Year() >= 0 && failed.Year() < 9999 { // JSON has no other years
		l.FailedAt, l.Age = new(failed.UTC()), new(now.Sub(failed).Seconds())
	}
	l.Key = keyOf(l, m.Body)
	l.Code, l.Reason = bounded(l.Code), bounded(l.Reason)
	return l
}

// maxText is how long a code or a reason is, in bytes: as long as what the consumer writes. Any
// publisher may write 100 kB, and a list has thousands of dead letters in memory. The headers of a
// [Detail] have the whole text.
const maxText = 512

func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + "…" // a part of the text would keep all of it in memory
}

func text(m rabbitmq.Message, header string) string {
	s, _ := m.Headers[header].(string)
	return s
}
