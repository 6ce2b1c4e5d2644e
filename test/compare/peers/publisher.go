package main

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

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
	idle chan shop.Channel
}

// publish returns nil when the broker has confirmed the message and has routed it to a queue.
func (p *publisher) publish(ctx context.Context, m message) error {
	s, err := p.session()
	if err != nil {
		return err
	}
	select {
	case c := <-s.idle:
		err = c.Publish(ctx, true, amqp.Publishing{
			MessageId: m.ID, Type: m.Key, Body: m.Body, ContentType: "application/json",
			DeliveryMode: amqp.Persistent, Timestamp: time.Now(),
		})
		s.idle <- c
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, shop.ErrReturned) {
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
	s := &session{conn: conn, idle: make(chan shop.Channel, p.channels)}
	for c := first; len(s.idle) < p.channels && err == nil; {
		var channel shop.Channel
		if channel, err = shop.NewChannel(c); err == nil {
			s.idle <- channel
			c, err = conn.Channel()
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	p.current = s
	return s, nil
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
