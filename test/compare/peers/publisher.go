package main

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// confirmTimeout limits the wait for a confirm.
const confirmTimeout = 3 * time.Second

// publisher is what River's worker uses: River knows no brokers. Many workers publish at the same
// time, over one connection, each on a channel of its own. So a message that comes back belongs to
// the worker of its channel.
type publisher struct {
	url      string
	channels int

	mu      sync.Mutex
	current *session
}

// session is a connection with its channels that nobody uses now.
type session struct {
	conn *amqp.Connection
	idle chan channel
}

type channel struct {
	*amqp.Channel
	returns chan amqp.Return
}

var errReturned = errors.New("the message reached no queue")

// publish returns nil when the broker has confirmed the message and has routed it to a queue.
func (p *publisher) publish(ctx context.Context, m message) error {
	s, err := p.session()
	if err != nil {
		return err
	}
	select {
	case c := <-s.idle:
		err = c.publish(ctx, m)
		s.idle <- c
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, errReturned) {
		p.drop(s)
	}
	return err
}

// session opens a connection if there is none. It opens all channels at once: on a connection that
// the broker has blocked, this would wait without a limit.
func (p *publisher) session() (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && !p.current.conn.IsClosed() {
		return p.current, nil
	}
	conn, first, err := shop.OpenChannel(p.url)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, idle: make(chan channel, p.channels)}
	for c := first; ; {
		if err = c.Confirm(false); err != nil {
			break
		}
		s.idle <- channel{c, c.NotifyReturn(make(chan amqp.Return, 1))}
		if len(s.idle) == p.channels {
			p.current = s
			return s, nil
		}
		if c, err = conn.Channel(); err != nil {
			break
		}
	}
	_ = conn.Close()
	return nil, err
}

// drop closes a connection after an error. The next message opens a new one.
func (p *publisher) drop(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == s {
		p.current = nil
		go s.conn.Close() // a broker that blocks publishers does not answer
	}
}

func (c channel) publish(ctx context.Context, m message) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	confirm, err := c.PublishWithDeferredConfirm(shop.Exchange, m.Key, true, false, amqp.Publishing{
		MessageId: m.ID, Type: m.Key, Body: m.Body, ContentType: "application/json",
		DeliveryMode: amqp.Persistent, Timestamp: time.Now(),
	})
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
		return errReturned
	default:
		return nil
	}
}
