package rabbitmq

import (
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

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

func text(header any) string {
	s, _ := header.(string)
	return s
}

// HeaderValues returns the headers with plain maps instead of the client library's type.
func (m Message) HeaderValues() map[string]any {
	values, _ := goValue(amqp.Table(m.Headers)).(map[string]any)
	return values
}

func goValue(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		values := maps.Clone(map[string]any(v))
		for name := range values {
			values[name] = goValue(values[name])
		}
		return values
	case []any:
		values := make([]any, 0, len(v))
		for _, element := range v {
			values = append(values, goValue(element))
		}
		return values
	default:
		return v
	}
}
