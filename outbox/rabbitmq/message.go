package rabbitmq

import (
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/publish"
)

// Message is what a publisher sends and a consumer gets.
type Message struct {
	ID          string // the same each time that the message is published
	Type        string
	Exchange    string
	RoutingKey  string
	ContentType string
	AppID       string
	Timestamp   time.Time // as it is on the wire, in seconds; see PublishedAt
	Headers     map[string]any
	Body        []byte

	// Only other publishers set these. A copy keeps them.
	ContentEncoding string
	CorrelationID   string
	ReplyTo         string
	Priority        uint8

	span trace.SpanContext // of the consumer; see Context
}

// MessageID is the ID, for package inbox.
func (m Message) MessageID() string { return m.ID }

// PublishedAt is the time that the publisher meant by the Timestamp, for package inbox. AMQP has
// seconds, but some publishers write milliseconds, microseconds or nanoseconds. Read as seconds,
// these are after the year 5138. Zero means that there is no time.
func (m Message) PublishedAt() time.Time {
	switch n := m.Timestamp.Unix(); {
	case n <= 0:
		return time.Time{}
	case n < 1e11:
		return m.Timestamp
	case n < 1e14:
		return time.UnixMilli(n)
	case n < 1e17:
		return time.UnixMicro(n)
	default:
		return time.Unix(0, n)
	}
}

// Copy returns a copy of m that may be published again. It has its own headers: those of the sender,
// without what brokers have added. CC and BCC would route to more queues again, so they have other
// names, original-cc and original-bcc. A Message has no expiration and no user id: with an
// expiration the copy might be lost, and the broker refuses the id of another user.
func (m Message) Copy() Message {
	headers := map[string]any{}
	for name, value := range m.Headers {
		switch {
		case name == "CC" || name == "BCC":
			headers["original-"+strings.ToLower(name)] = value
		case !ofBroker(name):
			headers[name] = value
		}
	}
	m.Headers = headers
	return m
}

// ofBroker is true for a header that brokers add. RabbitMQ 3.10 silently drops a message if x-death
// says that it was in the queue before.
func ofBroker(name string) bool {
	switch name {
	case "x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
		"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count":
		return true
	}
	return false
}

// unreadable returns why the message has none of its headers. See the type frames.
func (m Message) unreadable() error {
	if reason := text(m.Headers[unreadableHeader]); reason != "" {
		return fmt.Errorf("%w: %s", publish.ErrBadHeaders, reason)
	}
	return nil
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

// These limits are checked before a message is sent, in bytes. A message over a limit would close
// the channel, or the whole connection with all its channels.
const (
	MaxBody    = 1 << 20  // brokers take 16 MiB (4.x) or 128 MiB (3.x)
	maxShort   = 255      // AMQP's short string: keys, properties, the names of headers
	maxHeaders = 64 << 10 // must fit one frame, which is 128 KiB. An event has 60 KiB: there is room for its trace and for a copy's headers
)

// check returns why m must not be sent.
func (m Message) check() error {
	if len(m.Body) > MaxBody {
		return fmt.Errorf("%w: %d bytes, at most %d", publish.ErrTooLarge, len(m.Body), MaxBody)
	}
	if len(m.RoutingKey) > maxShort {
		return fmt.Errorf("%w: %d bytes, at most %d", publish.ErrBadTopic, len(m.RoutingKey), maxShort)
	}
	if err := amqp.Table(m.Headers).Validate(); err != nil {
		return fmt.Errorf("%w: %w", publish.ErrBadHeaders, err)
	}
	for _, name := range []string{"CC", "BCC"} {
		value, there := m.Headers[name]
		if _, isList := value.([]any); there && !isList {
			return fmt.Errorf("%w: %s must be a list of routing keys, not %T: the broker would close the channel", publish.ErrBadHeaders, name, value)
		}
	}
	size, longest := measure(amqp.Table(m.Headers))
	if size > maxHeaders {
		return fmt.Errorf("%w: %d bytes, at most %d", publish.ErrBadHeaders, size, maxHeaders)
	}
	longest = max(longest, len(m.Exchange), len(m.ID), len(m.Type), len(m.ContentType), len(m.AppID),
		len(m.ContentEncoding), len(m.CorrelationID), len(m.ReplyTo))
	if longest > maxShort {
		return fmt.Errorf("%w: a name or property of %d bytes, at most %d", publish.ErrBadHeaders, longest, maxShort)
	}
	return nil
}

// measure returns the size of a header's value on the wire, in bytes, or a few bytes more, and the
// length of the longest name in it. Arrays and tables nest.
func measure(value any) (size, longest int) {
	const typeAndLength, typeAndNumber = 5, 9
	switch v := value.(type) {
	case string:
		return typeAndLength + len(v), 0
	case []byte:
		return typeAndLength + len(v), 0
	case []any:
		for _, element := range v {
			s, l := measure(element)
			size, longest = size+s, max(longest, l)
		}
		return typeAndLength + size, longest
	case amqp.Table:
		for name, element := range v {
			s, l := measure(element)
			size, longest = size+1+len(name)+s, max(longest, len(name), l)
		}
		return typeAndLength + size, longest
	}
	return typeAndNumber, 0 // or less
}

func (m Message) publishing() amqp.Publishing {
	return amqp.Publishing{
		MessageId: m.ID, Type: m.Type, ContentType: m.ContentType, AppId: m.AppID,
		Timestamp: m.Timestamp, Headers: m.Headers, Body: m.Body,
		ContentEncoding: m.ContentEncoding, CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo, Priority: m.Priority,
		DeliveryMode: amqp.Persistent,
	}
}

func messageOf(d amqp.Delivery) Message {
	return Message{
		ID: d.MessageId, Type: d.Type, Exchange: d.Exchange, RoutingKey: d.RoutingKey,
		ContentType: d.ContentType, AppID: d.AppId, Timestamp: d.Timestamp, Headers: d.Headers, Body: d.Body,
		ContentEncoding: d.ContentEncoding, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Priority: d.Priority,
	}
}
