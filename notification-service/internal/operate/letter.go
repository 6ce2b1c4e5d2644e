package operate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/consumer"
)

// Letter is a dead letter, without its body.
type Letter struct {
	ID         string     `json:"id"`
	RoutingKey string     `json:"routing_key"`
	Code       string     `json:"failure_code"`
	Reason     string     `json:"failure_reason"`
	FailedAt   *time.Time `json:"failed_at"`
	Age        *float64   `json:"age_seconds"` // since FailedAt, by this machine's clock
	Retries    int64      `json:"retry_count"`
	Size       int        `json:"size"` // of the body, in bytes
}

// unknown is the code of what neither the consumer nor the broker has put there.
const unknown = "unknown"

// brokersReasons explain the codes of what the broker has moved itself.
var brokersReasons = map[string]string{
	"delivery-limit":  "delivered too often: each time its consumer died, or did not answer",
	"rejected":        "the consumer could not publish a copy of it with the reason",
	consumer.TooLarge: fmt.Sprintf("the body is larger than %d bytes: the consumer did not read it", rabbitmq.MaxBody),
}

// letterOf reads a dead letter. The consumer's copies have headers that say what
// happened. The broker's have an x-death, which no copy has, and may have headers of
// the retries before.
func letterOf(m rabbitmq.Message, now time.Time) Letter {
	l := Letter{ID: m.ID, RoutingKey: m.RoutingKey, Size: len(m.Body)}
	_, _ = fmt.Sscan(fmt.Sprint(m.Headers[consumer.RetryCountHeader]), &l.Retries) // no number: none
	failed := time.Time{}
	if death, ok := m.Death(); ok {
		l.Code = strings.ReplaceAll(death.Reason, "_", "-")
		if l.Code == "rejected" && l.Size > rabbitmq.MaxBody {
			l.Code = consumer.TooLarge
		}
		l.Reason, failed = brokersReasons[l.Code], death.Time
	} else {
		l.Code = cmp.Or(text(m, consumer.FailureCodeHeader), unknown)
		l.Reason = text(m, consumer.FailureReasonHeader)
		failed, _ = time.Parse(time.RFC3339, text(m, consumer.FailedAtHeader))
	}
	if !failed.IsZero() && failed.Year() < 9999 { // a later one has no JSON
		l.FailedAt, l.Age = new(failed.UTC()), new(now.Sub(failed).Seconds())
	}
	return l
}

func text(m rabbitmq.Message, header string) string {
	s, _ := m.Headers[header].(string)
	return s
}

// Heads names the columns of a list.
func (Letter) Heads() []string {
	return []string{"ID", "ROUTING KEY", "CODE", "FAILED AT", "AGE", "RETRIES", "SIZE", "REASON"}
}

// Cells are what a list shows of it.
func (l Letter) Cells() []string {
	return []string{
		operator.Plain(cmp.Or(l.ID, "-")), operator.Plain(l.RoutingKey), operator.Plain(l.Code), l.failedAt(), l.age(),
		fmt.Sprint(l.Retries), fmt.Sprint(l.Size), operator.Cut(operator.Plain(l.Reason)),
	}
}

func (l Letter) failedAt() string {
	if l.FailedAt == nil {
		return ""
	}
	return l.FailedAt.Format(time.RFC3339)
}

func (l Letter) age() string {
	if l.Age == nil {
		return ""
	}
	return operator.Age(time.Duration(*l.Age * float64(time.Second)))
}
