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
	session   *Session
	answering *sync.WaitGroup // of the publisher
	lasts     context.Context //nolint:containedctx // until the publisher needs it no more
	end       context.CancelFunc
	// returns has room for all messages without an answer: the client library drops a return if
	// this is full. The listener is registered once, before any message.
	returns chan amqp.Return
	closed  chan *amqp.Error

	mu       sync.Mutex
	open     int           // messages without an answer
	sent     int           // since it was opened
	refused  bool          // a message was refused
	left     bool          // the publisher uses another channel
	returned map[route]int // returns whose confirms were not seen yet
	reason   error         // why it closed
}

// route tells returned messages apart: they have no delivery tag.
type route struct{ id, exchange, key string }

// sent is a message whose confirm has not come yet.
type sent struct {
	*amqp.DeferredConfirmation
	route route
	i     int // of the messages of a call
}

var (
	errNoRoute = fmt.Errorf("%w: no queue is bound for it", publish.ErrReturned)
	errRefused = errors.New("a queue refused it")
)

func openConfirmChannel(p *Publisher, room int) (*confirmChannel, error) {
	channel, err := p.session.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	c := &confirmChannel{
		Channel: channel,
		session: p.session, answering: &p.answering,
		returns:  channel.NotifyReturn(make(chan amqp.Return, room)),
		closed:   channel.NotifyClose(make(chan *amqp.Error, 1)),
		returned: map[route]int{},
		reason:   amqp.ErrClosed,
	}
	if err := channel.Confirm(false); err != nil {
		return nil, fmt.Errorf("asking for confirms: %w", err)
	}
	c.lasts, c.end = context.WithCancel(p.lasts)
	return c, nil
}

// take takes the places of n messages. If it returns false, the publisher must use another channel.
// A channel that the broker has closed has no successor: it takes messages, and all are NotSent.
func (c *confirmChannel) take(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.refused || c.open+n > cap(c.returns) || c.sent >= maxSent
	if c.left = c.left || full && !c.IsClosed(); c.left {
		c.endIfDone()
		return false
	}
	c.open, c.sent = c.open+n, c.sent+n
	return true
}

// free gives the place of one message back.
func (c *confirmChannel) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.endIfDone()
}

func (c *confirmChannel) endIfDone() {
	if c.left && c.open == 0 {
		c.end()
	}
}

// write sends the messages in few pieces. One goroutine waits for the confirms of all: one for each
// message would cost 3 µs a message.
func (c *confirmChannel) write(ctx context.Context, messages []Message, answer func(i int, r publish.Result)) {
	all := make([]sent, 0, len(messages))
	defer func() { c.answering.Go(func() { c.await(all, answer) }) }()
	defer c.session.socket.hold()()
	for i, m := range messages {
		confirmation, result := c.send(ctx, m)
		if confirmation == nil {
			c.free()
			answer(i, result)
			continue
		}
		all = append(all, sent{confirmation, route{m.ID, m.Exchange, m.RoutingKey}, i})
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
	broken := c.session.socket.broken.Load() != nil
	confirmation, err := c.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false, m.publishing())
	switch {
	case err == nil:
		return confirmation, publish.Result{}
	case broken || errors.Is(err, amqp.ErrClosed):
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, notSent(c.closeReason())
	default: // a part of it may have been sent
		return nil, publish.Result{Outcome: publish.Unknown, Err: err}
	}
}

// await hands the answers back. They usually come in order. If the oldest one takes long, it looks
// for others.
func (c *confirmChannel) await(all []sent, answer func(i int, r publish.Result)) {
	ticker := time.NewTicker(silence)
	defer ticker.Stop()
	for len(all) > 0 {
		look := ticker.C
		if len(all) == 1 {
			look = nil
		}
		select {
		case <-all[0].Done():
			answer(all[0].i, c.result(all[0]))
			all = all[1:]
		case <-look:
			all = slices.DeleteFunc(all, func(s sent) bool {
				select {
				case <-s.Done():
					answer(s.i, c.result(s))
					return true
				default:
					return false
				}
			})
		}
	}
}

// result gives the place of the message back, because after the answer the caller publishes more.
// It distinguishes a refusal from a closed channel: the client library reports both as "not
// acknowledged". The broker sends a return before the confirm, so it has arrived by now.
func (c *confirmChannel) result(s sent) publish.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.returns) > 0 {
		r := <-c.returns
		c.returned[route{r.MessageId, r.Exchange, r.RoutingKey}]++
	}
	c.open--
	c.endIfDone()
	n := c.returned[s.route]
	if c.returned[s.route]--; n <= 1 {
		delete(c.returned, s.route)
	}
	switch {
	case s.Acked() && n > 0:
		return publish.Result{Outcome: publish.Returned, Err: errNoRoute}
	case s.Acked():
		return publish.Result{Outcome: publish.Confirmed}
	case c.IsClosed():
		return publish.Result{Outcome: publish.Unknown, Err: c.closeReason()}
	default:
		c.refused = true
		return publish.Result{Outcome: publish.Refused, Err: errRefused}
	}
}

// closeReason keeps the reason, because the client library sends it once. It has publish.ErrClosed
// if a message is the cause: the broker closes only the channel if it does not accept a message
// (406), or if this user may not publish it (403). No message is the cause of a missing exchange
// (404), a broker that shuts down (320), or a cut, which has no reason from the broker. The caller
// holds the lock.
func (c *confirmChannel) closeReason() error {
	select {
	case reason, ok := <-c.closed:
		if !ok {
			break
		}
		c.reason = reason
		fault := reason.Code == amqp.PreconditionFailed || reason.Code == amqp.AccessRefused
		if fault && reason.Server && !c.session.conn.IsClosed() {
			c.reason = fmt.Errorf("%w: %w", publish.ErrClosed, reason)
		}
	default:
	}
	return c.reason
}
