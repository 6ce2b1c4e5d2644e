package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
)

const (
	// silence is how long the oldest message of a batch may hold back the answers to the others.
	silence = 10 * time.Millisecond
	// maxSent is how many messages are sent on one channel. If a confirm is missing, the client
	// library keeps all later ones of the channel in memory.
	maxSent = 250_000
)

// confirmChannel is a channel of AMQP in confirm mode.
type confirmChannel struct {
	*amqp.Channel
	publisher *Publisher
	// returns has room for all messages without an answer: the client library drops a return if
	// this is full. The listener is registered once, before any message.
	returns chan amqp.Return
	closed  chan *amqp.Error

	mu       sync.Mutex
	open     int           // messages without an answer
	sent     int           // since it was opened
	left     bool          // the publisher uses another channel
	refused  bool          // a message was refused
	returned map[route]int // returns whose confirms were not seen yet
	reason   error         // why it closed
}

// route tells returned messages apart: they have no delivery tag.
type route struct{ id, exchange, key string }

// sent is a message whose confirm has not come yet.
type sent struct {
	*amqp.DeferredConfirmation
	route  route
	answer func(i int, r publish.Result)
	i      int
}

var (
	errNoRoute = fmt.Errorf("%w: no queue is bound for it", publish.ErrReturned)
	errRefused = errors.New("a queue refused it")
)

// take takes the places of n messages. If it returns false, the publisher must use another channel.
func (c *confirmChannel) take(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left && !c.refused && c.open+n <= cap(c.returns) && c.sent < maxSent {
		c.open, c.sent = c.open+n, c.sent+n
		return true
	}
	if !c.left {
		c.left = true
		c.closeIfDone()
	}
	return false
}

// write sends the batches in few pieces. One goroutine waits for the confirms of all: one for each
// message would cost 3 µs a message.
func (c *confirmChannel) write(batches []batch, n int) {
	all := make([]sent, 0, n)
	defer func() { go c.await(all) }()
	defer c.publisher.session.socket.hold()()
	for _, b := range batches {
		for i, m := range b.messages {
			confirmation, result := c.send(b.ctx, m)
			if confirmation == nil {
				c.free()
				b.answer(i, result)
				continue
			}
			all = append(all, sent{confirmation, route{m.ID, m.Exchange, m.RoutingKey}, b.answer, i})
		}
	}
}

// send returns the confirmation that will come, or the result of a message that was not sent.
func (c *confirmChannel) send(ctx context.Context, m Message) (*amqp.DeferredConfirmation, publish.Result) {
	if err := m.check(); err != nil {
		return nil, publish.Result{Outcome: publish.Invalid, Err: err}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, notSent(err)
	}
	broken := c.publisher.session.socket.broken.Load()
	confirmation, err := c.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false, m.publishing())
	switch {
	case err == nil:
		return confirmation, publish.Result{}
	case broken || errors.Is(err, amqp.ErrClosed):
		return nil, notSent(c.closeReason())
	default: // a part of it may have been sent
		return nil, publish.Result{Outcome: publish.Unknown, Err: err}
	}
}

// await hands the answers back. They usually come in order. If the oldest one takes long, it looks
// for others.
func (c *confirmChannel) await(all []sent) {
	ticker := time.NewTicker(silence)
	defer ticker.Stop()
	for len(all) > 0 {
		look := ticker.C
		if len(all) == 1 {
			look = nil
		}
		select {
		case <-all[0].Done():
			c.answer(all[0])
			all = all[1:]
		case <-look:
			all = slices.DeleteFunc(all, c.answerIfDone)
		}
	}
}

func (c *confirmChannel) answerIfDone(s sent) bool {
	select {
	case <-s.Done():
		c.answer(s)
		return true
	default:
		return false
	}
}

// answer distinguishes a refusal from a closed channel. The client library reports both as "not
// acknowledged". Its place is free before the answer, because the caller then publishes more.
func (c *confirmChannel) answer(s sent) {
	result := publish.Result{Outcome: publish.Confirmed}
	switch returned := c.wasReturned(s.route); {
	case s.Acked() && returned:
		result = publish.Result{Outcome: publish.Returned, Err: errNoRoute}
	case s.Acked():
	case c.IsClosed():
		c.publisher.end()
		result = publish.Result{Outcome: publish.Unknown, Err: c.closeReason()}
	default:
		c.mu.Lock()
		c.refused = true
		c.mu.Unlock()
		result = publish.Result{Outcome: publish.Refused, Err: errRefused}
	}
	c.free()
	s.answer(s.i, result)
}

// wasReturned reports whether a message with a confirm was returned before. The broker sends the
// return before the confirm, so it has arrived by now.
func (c *confirmChannel) wasReturned(r route) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.returns) > 0 {
		one := <-c.returns
		c.returned[route{one.MessageId, one.Exchange, one.RoutingKey}]++
	}
	n := c.returned[r]
	if n > 1 {
		c.returned[r]--
	} else {
		delete(c.returned, r)
	}
	return n > 0
}

// free gives the place of one message back.
func (c *confirmChannel) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.closeIfDone()
}

// closeIfDone closes the channel if it has become useless. It does not wait for the broker.
func (c *confirmChannel) closeIfDone() {
	if c.left && c.open == 0 {
		go c.close()
	}
}

func (c *confirmChannel) close() {
	_ = c.Close()
	c.publisher.mu.Lock()
	defer c.publisher.mu.Unlock()
	delete(c.publisher.channels, c)
}

// closeReason stores the reason: the client library sends it once, and each message without an
// answer needs it. It has publish.ErrClosed if a message is the cause. The broker closes only the
// channel if it does not accept a message (406), or if this user may not publish it (403). No
// message is the cause of a missing exchange (404), a broker that shuts down (320), or a cut, which
// has no reason from the broker.
func (c *confirmChannel) closeReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case reason, ok := <-c.closed:
		if !ok || reason == nil {
			break
		}
		c.reason = reason
		fault := reason.Code == amqp.PreconditionFailed || reason.Code == amqp.AccessRefused
		if fault && reason.Server && !c.publisher.session.conn.IsClosed() {
			c.reason = fmt.Errorf("%w: %w", publish.ErrClosed, reason)
		}
	default:
	}
	return c.reason
}
