package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
)

// Consumer takes messages from a queue and hands them to a [Handler]. What happens to a message:
//
//	handled                               ─► acknowledged
//	refused by Check, or [ErrPermanent]   ─► copy to the dead letters, acknowledged
//	its batch fails                       ─► its messages are handled one by one
//	it fails alone, the handler is ready  ─► copy to the next retry queue, acknowledged
//	Check panics                          ─► as if it had failed alone
//	it fails [Queue.GiveUp] after that    ─► copy to the dead letters, acknowledged
//	it comes from a retry queue           ─► handled alone
//	too large, or unreadable headers      ─► rejected: the broker makes it a dead letter
//	it fails, the handler is not ready    ─► back to the queue; nothing is taken until it is ready
//	no copy can be made                   ─► kept and tried again; other messages go on
//	the process dies                      ─► the broker delivers it again
//
// A message is acknowledged after it was handled, or after the broker has confirmed a copy of it,
// and never before. So it may come twice. A message that waits for a retry does not stop the
// others: later messages of the same aggregate may be handled before it. If their order matters to
// the handler, put the version into the payload, and compare it.
//
// The consumer never reads its dead letters. To read, replay or remove them, use
// [Session.DeadLetters].
type Consumer struct {
	url     string
	queue   Queue
	handler Handler
	tracer  trace.Tracer
	copies  chan copyRequest // for the session that publishes them
	stats   counters
	letters atomic.Int64 // see DeadLetters

	waiting atomic.Pointer[string] // for what; see Health
	overdue atomic.Pointer[overdue]
	moving  sync.WaitGroup // the messages whose copies are being made
	places  chan struct{}  // one for each of these messages
	// proven is set when a message was acknowledged that had not been delivered before. Until then
	// messages are taken one by one. The broker counts the death of a process against each
	// unacknowledged message, so a message that kills the process must be alone.
	proven atomic.Bool
	// finish ends when what is in flight must end: ShutdownTimeout after the context of Run.
	finish context.Context //nolint:containedctx // it belongs to no single call
	// asked is when the handler was ready last. Only the goroutine that takes messages uses it.
	asked struct{ handlersTime, ownTime time.Time }

	noting    sync.Mutex
	inboxes   []any // that the handler has reached; or the handler, if it is whole
	runBeside func(runner)
}

// NewConsumer returns a consumer that does nothing until Run. Its error names the settings that
// cannot work. The URL is as in [NewBroker].
func NewConsumer(url string, q Queue, h Handler) (*Consumer, error) {
	q = q.withDefaults()
	if err := q.check(url); err != nil {
		return nil, err
	}
	if h == nil {
		return nil, errors.New("rabbitmq: the handler is nil")
	}
	c := &Consumer{
		url: url, queue: q, handler: h, copies: make(chan copyRequest), places: make(chan struct{}, q.Prefetch),
		tracer: q.TracerProvider.Tracer("example.com/transactional-outbox/outbox/rabbitmq"),
	}
	c.waitFor(aSession)
	return c, nil
}

// Run takes messages until ctx ends. Then it finishes what is in flight, for
// [Queue.ShutdownTimeout] at most, and returns nil. It returns a second later if a handler does not
// return; then the transaction of that handler is still open, and its messages come again. An outage
// does not end Run; an error of the handler's Run does, and is returned. Call it once.
//
// It uses two connections. A memory alarm blocks the one that publishes copies, and consuming goes
// on. Publishing ends after consuming, because the last message may need a copy.
func (c *Consumer) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	finish, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.queue.ShutdownTimeout, stop) })()
	c.finish = finish
	c.runBeside = func(r runner) { running.Go(func() error { return r.Run(ctx) }) }
	if c.isWhole() {
		c.noteInbox(c.handler)
	}
	running.Go(func() error {
		defer stop()
		defer c.runNoMore() // nobody waits for one that begins now
		defer c.moving.Wait()
		return keepDeclaring(ctx, c.config("consumer"), c.waitFor, func(session context.Context, s *Session) error {
			err := c.serve(session, s)
			if ctx.Err() != nil {
				c.moving.Wait() // the session is needed for the last acks
			}
			return err
		})
	})
	running.Go(func() error {
		return keepDeclaring(finish, c.config("copies"), func(string) {}, c.publishCopies)
	})
	return running.Wait()
}

func (c *Consumer) config(role string) Config {
	return Config{URL: c.url, FreshURL: c.queue.FreshURL, Name: c.queue.Name + " " + role, Logger: c.queue.Logger}
}

// serve takes messages in one session. It declares the topology again and again: if somebody
// deletes a binding or an exchange, no connection closes, so nothing else would notice it.
func (c *Consumer) serve(ctx context.Context, s *Session) error {
	c.proven.Store(false)
	defer c.waitFor(aSession)
	if c.queue.Exchange != "" {
		c.waitFor("the exchange " + c.queue.Exchange)
		if err := s.WaitForExchange(ctx, c.queue.Exchange, "topic"); err != nil {
			return err
		}
	}
	both, ctx := errgroup.WithContext(ctx)
	if !c.queue.NoDeclare {
		declared := c.queue.Topology()
		if err := s.Declare(declared); err != nil {
			return err
		}
		both.Go(func() error { return s.KeepDeclared(ctx, declared) })
	}
	both.Go(func() error { return c.takeWhileReady(ctx, s) })
	both.Go(func() error { return c.countDeadLetters(ctx, s) })
	return both.Wait()
}
