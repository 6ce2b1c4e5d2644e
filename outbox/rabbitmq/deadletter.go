package rabbitmq

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DeadLetter is a message that its consumer, or the broker, has given up. After a shovel has moved it
// to another queue, the RoutingKey is that queue's name.
type DeadLetter struct {
	Message
	Code     string    // why, from a small set: a code of the consumer, or one of those below
	Reason   string    // the same for people
	FailedAt time.Time // zero: unknown
	Retries  int64     // that it has had

	tag uint64 // of the delivery
}

// The codes of dead letters that the broker has made. They are as the consumer has got them.
const (
	CodeDeliveryLimit = "delivery-limit" // delivered too often: each time the consumer died
	CodeRejected      = "rejected"       // the consumer could not publish a copy with the reason
	CodeTooLarge      = "too-large"      // the same: its body has more than MaxBody
	CodeUnreadable    = "unreadable"     // the same: its headers cannot be read here; the broker has them
	CodeUnknown       = "unknown"        // neither a consumer nor the broker says why
)

var brokerReasons = map[string]string{
	CodeDeliveryLimit: "delivered too often: each time its consumer died, or did not answer",
	CodeRejected:      "the consumer could not publish a copy of it with the reason",
	CodeTooLarge:      fmt.Sprintf("the body is larger than %d bytes: the consumer did not read it", MaxBody),
}

// deadLetterOf reads why a message is a dead letter. The consumer's copies have headers that say
// it. The broker's messages have an x-death, which no copy has, and may have headers of earlier
// retries.
func deadLetterOf(d amqp.Delivery) DeadLetter {
	m := messageOf(d)
	l := DeadLetter{Message: m, Retries: retryCount(m), tag: d.DeliveryTag}
	if err := m.unreadable(); err != nil {
		l.Code, l.Reason = CodeUnreadable, err.Error()
	} else if death, ok := m.Death(); ok {
		l.Code, l.FailedAt = strings.ReplaceAll(death.Reason, "_", "-"), death.Time
		if l.Code == CodeRejected && len(m.Body) > MaxBody {
			l.Code = CodeTooLarge
		}
		l.Reason = brokerReasons[l.Code]
	} else {
		l.Code, l.Reason = cmp.Or(text(m.Headers[FailureCodeHeader]), CodeUnknown), text(m.Headers[FailureReasonHeader])
		l.FailedAt, _ = time.Parse(time.RFC3339, text(m.Headers[FailedAtHeader]))
	}
	if l.FailedAt.Year() < 1 || l.FailedAt.Year() > 9999 {
		l.FailedAt = time.Time{} // JSON has no other years, and any publisher may have written it
	}
	// Any publisher may also have written 100 kB. A part of that text would keep all of it in memory.
	l.Code, l.Reason = strings.Clone(truncate(l.Code)), strings.Clone(truncate(l.Reason))
	return l
}

// Death is a dead-lettering by the broker itself, as the broker recorded it in the headers of the
// message.
type Death struct {
	Reason string // delivery_limit, rejected, expired, maxlen
	Queue  string // the queue that the message came from
	Time   time.Time
}

// Death returns the last dead-lettering. A published copy has none, see [Message.Copy].
func (m Message) Death() (Death, bool) {
	deaths := m.deaths()
	reason, queue := text(m.Headers["x-last-death-reason"]), text(m.Headers["x-last-death-queue"])
	for _, d := range deaths {
		// RabbitMQ 4 has headers that say which is the last. RabbitMQ 3 puts it first.
		if reason == "" || d.Reason == reason && d.Queue == queue {
			return d, true
		}
	}
	return Death{Reason: reason, Queue: queue}, reason != ""
}

func (m Message) deaths() (deaths []Death) {
	list, _ := m.Headers["x-death"].([]any)
	for _, element := range list {
		if d, ok := element.(amqp.Table); ok && text(d["reason"]) != "" {
			at, _ := d["time"].(time.Time)
			deaths = append(deaths, Death{Reason: text(d["reason"]), Queue: text(d["queue"]), Time: at})
		}
	}
	return deaths
}
