package shop

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Names at the broker. They are the same as those of this project's services.
const (
	Exchange    = "outbox.events"
	Queue       = "notification-service"
	DeadLetters = "notification-service.dlq"
	deadLetters = "notification-service.dlx"
)

// ConfirmTimeout limits the wait for a confirm.
const ConfirmTimeout = 3 * time.Second

// Publisher publishes persistent messages, waits for the confirm of each, and detects messages
// that reached no queue. After an error it connects again. So it loses no message without an
// error, unless NotMandatory is set.
type Publisher struct {
	URL          string
	NotMandatory bool // do not ask for messages back that reach no queue

	mu      sync.Mutex
	conn    *amqp.Connection
	channel Channel
}

// Publish returns nil when the broker has confirmed the message and has routed it to a queue.
func (p *Publisher) Publish(ctx context.Context, e Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.connect()
	if err == nil {
		err = p.channel.Publish(ctx, !p.NotMandatory, Message(e))
	}
	if err != nil && p.conn != nil {
		go p.conn.Close() // a broker that blocks publishers does not answer
		p.conn = nil
	}
	return err
}

func (p *Publisher) connect() (err error) {
	if p.conn != nil && !p.conn.IsClosed() {
		return nil
	}
	var channel *amqp.Channel
	if p.conn, channel, err = OpenChannel(p.URL); err != nil {
		return err
	}
	p.channel, err = NewChannel(channel)
	return err
}

// Channel is a channel in confirm mode. One caller at a time uses it, so what comes back, and what
// is confirmed, is the message of this caller.
type Channel struct {
	*amqp.Channel
	returns chan amqp.Return
}

// NewChannel puts a channel in confirm mode.
func NewChannel(c *amqp.Channel) (Channel, error) {
	return Channel{c, c.NotifyReturn(make(chan amqp.Return, 1))}, c.Confirm(false)
}

// ErrReturned means that the broker has confirmed the message, and that it reached no queue.
var ErrReturned = errors.New("the message reached no queue")

// Publish returns nil when the broker has confirmed the message and, if that is mandatory, has
// routed it to a queue.
func (c Channel) Publish(ctx context.Context, mandatory bool, m amqp.Publishing) error {
	ctx, cancel := context.WithTimeout(ctx, ConfirmTimeout)
	defer cancel()
	confirm, err := c.PublishWithDeferredConfirm(Exchange, m.Type, mandatory, false, m)
	if err != nil {
		return err
	}
	acked, err := confirm.WaitContext(ctx)
	if err != nil {
		return err
	}
	if !acked {
		return errors.New("the broker has not confirmed the message")
	}
	select {
	case <-c.returns: // the broker sends it before the confirm
		return ErrReturned
	default:
		return nil
	}
}

// Message returns the message of an event.
func Message(e Event) amqp.Publishing {
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // it has only strings and a number
	}
	return amqp.Publishing{
		MessageId: e.ID, Type: e.Key, Body: body, ContentType: "application/json",
		DeliveryMode: amqp.Persistent, Timestamp: time.Now(),
	}
}

// OpenChannel opens a connection and a channel, and declares the exchange.
func OpenChannel(url string) (*amqp.Connection, *amqp.Channel, error) {
	return OpenWith(url, nil)
}

// OpenWith is OpenChannel with the client library's own recovery.
func OpenWith(url string, recovery *amqp.Recovery) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.DialConfig(url, amqp.Config{Heartbeat: 10 * time.Second, Recovery: recovery, Dial: dial})
	if err != nil {
		return nil, nil, err
	}
	channel, err := conn.Channel()
	if err == nil {
		err = channel.ExchangeDeclare(Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, channel, nil
}

// dial limits the time of the connection and of the handshake.
func dial(network, address string) (net.Conn, error) {
	const limit = 3 * time.Second
	conn, err := net.DialTimeout(network, address, limit)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(limit))
	}
	return conn, err
}
