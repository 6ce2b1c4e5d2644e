package rabbitmq

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Message is what a publisher sends and a consumer gets.
type Message struct {
	ID          string // the same in every repeat of the message
	Type        string
	Exchange    string
	RoutingKey  string
	ContentType string
	AppID       string
	Timestamp   time.Time
	Headers     map[string]any
	Body        []byte
}

// Limits that are checked before a message goes out, in bytes. What breaks them
// would close the channel, or the whole connection with every other channel on it.
const (
	MaxBody       = 1 << 20  // brokers take 16 MiB (4.x) or 128 MiB (3.x)
	maxRoutingKey = 255      // AMQP's short string
	maxHeaders    = 64 << 10 // must fit one frame, which is 128 KiB
)

var (
	// ErrTooLarge is a body over MaxBody.
	ErrTooLarge = errors.New("the body is too large")
	// ErrBadKey is a routing key over 255 bytes.
	ErrBadKey = errors.New("the routing key is too long")
	// ErrBadHeaders are headers that AMQP cannot carry, or too many of them.
	ErrBadHeaders = errors.New("the headers cannot be sent")
)

// check returns why m must not be sent.
func (m Message) check() error {
	if len(m.Body) > MaxBody {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(m.Body), MaxBody)
	}
	if len(m.RoutingKey) > maxRoutingKey {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBadKey, len(m.RoutingKey), maxRoutingKey)
	}
	if err := amqp.Table(m.Headers).Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadHeaders, err)
	}
	size := 0
	for name, value := range m.Headers {
		size += len(name) + len(fmt.Sprint(value)) + 8
	}
	if size > maxHeaders {
		return fmt.Errorf("%w: about %d bytes, at most %d", ErrBadHeaders, size, maxHeaders)
	}
	return nil
}

func (m Message) publishing() amqp.Publishing {
	return amqp.Publishing{
		MessageId: m.ID, Type: m.Type, ContentType: m.ContentType, AppId: m.AppID,
		Timestamp: m.Timestamp, Headers: m.Headers, Body: m.Body,
		DeliveryMode: amqp.Persistent,
	}
}

func messageOf(d amqp.Delivery) Message {
	return Message{
		ID: d.MessageId, Type: d.Type, Exchange: d.Exchange, RoutingKey: d.RoutingKey,
		ContentType: d.ContentType, AppID: d.AppId, Timestamp: d.Timestamp, Headers: d.Headers, Body: d.Body,
	}
}
