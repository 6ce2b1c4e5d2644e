package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/consumer"
)

// DeadLetter is a dead letter, without its body.
type DeadLetter struct {
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

// parseDeadLetter reads a dead letter. The consumer's copies have headers with the reason. The
// broker's messages have an x-death, which no copy has, and may have headers of earlier retries.
func parseDeadLetter(m rabbitmq.Message, now time.Time) DeadLetter {
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
	if !failed.IsZero() && failed.Year() < 9999 { // JSON has no later year
		l.FailedAt, l.Age = new(failed.UTC()), new(now.Sub(failed).Seconds())
	}
	return l
}

func text(m rabbitmq.Message, header string) string {
	s, _ := m.Headers[header].(string)
	return s
}

// Header returns the column names of a list.
func (DeadLetter) Header() []string {
	return []string{"ID", "ROUTING KEY", "CODE", "FAILED AT", "AGE", "RETRIES", "SIZE", "REASON"}
}

// Cells are the columns of one row.
func (l DeadLetter) Cells() []string {
	return []string{
		cli.Printable(cmp.Or(l.ID, "-")), cli.Printable(l.RoutingKey), cli.Printable(l.Code), l.failedAt(), l.age(),
		fmt.Sprint(l.Retries), fmt.Sprint(l.Size), cli.Truncate(cli.Printable(l.Reason)),
	}
}

func (l DeadLetter) failedAt() string {
	if l.FailedAt == nil {
		return ""
	}
	return l.FailedAt.Format(time.RFC3339)
}

func (l DeadLetter) age() string {
	if l.Age == nil {
		return ""
	}
	return cli.Age(time.Duration(*l.Age * float64(time.Second)))
}
