package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
)

// Consumer takes messages from a queue and hands them to a [Handler]. What happens to a message:
//
//	handled                               ─► acknowledged
//	refused by Check, or [ErrPermanent]   ─► copy to the dead letters, acknowledged
//	its batch fails                       ─► its messages are handled one by one
//	it fails alone, the handler is ready  ─► copy to the next retry queue, acknowledged
//	the same, since [Queue.GiveUp]        ─► copy to the dead letters, acknowledged
//	it fails, the handler is not ready    ─► back to the queue; nothing is taken until it is ready
//	no copy can be made                   ─► kept and tried again; other messages go on
//	the process dies                      ─► the broker delivers it again
//
// A message is acknowledged after it was handled, or after the broker has confirmed a copy of it,
// and never before. So it may come twice. A message that waits for a retry does not stop the
// others: later messages of the same aggregate may be handled before it. If their order matters to
// the handler, put the version into the payload, and compare it.
//
// The consumer never reads its dead letters. To read or to remove them, use [Session.Browse].
type Consumer struct {
	url     string
	queue   Queue
	handler Handler
	tracer  trace.Tracer
	copies  *Outlet
	clock   clock
	stats   counters

	waiting atomic.Pointer[string] // for what; see Health
	moving  sync.WaitGroup         // the messages whose copies are being made, and their channels
	places  chan struct{}          // one for each of these messages
	// proven is set when a message was acknowledged that had not been delivered before. Until then
	// messages are taken one by one. The broker counts the death of a process against each
	// unacknowledged message, so a message that kills the process must be alone.
	proven atomic.Bool
	// finish ends when what is in flight must end: ShutdownTimeout after the context of Run.
	finish context.Context //nolint:containedctx // it belongs to no single call
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
		url: url, queue: q, handler: h, copies: NewOutlet(), places: make(chan struct{}, q.Prefetch),
		tracer: q.TracerProvider.Tracer("example.com/transactional-outbox/outbox/rabbitmq"),
	}
	c.waitFor(aSession)
	return c, nil
}

// Run takes messages until ctx ends. Then it finishes what is in flight, for
// [Queue.ShutdownTimeout] at most, and returns nil. An outage does not end it. Call it once.
//
// It uses two connections. A memory alarm blocks the one that publishes copies, and consuming goes
// on. Publishing ends after consuming, because the last message may need a copy.
func (c *Consumer) Run(ctx context.Context) error {
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	running, ctx := errgroup.WithContext(ctx)
	finish, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.queue.ShutdownTimeout, stop) })()
	c.finish = finish
	if own, ok := c.handler.(interface{ Run(context.Context) error }); ok {
		running.Go(func() error { return own.Run(ctx) })
	}
	running.Go(func() error {
		defer stopPublishing()
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
		return keepDeclaring(publishing, c.config("copies"), func(string) {}, func(ctx context.Context, s *Session) error {
			if err := s.Declare(c.queue.copyTopology()); err != nil {
				return err
			}
			return c.copies.Serve(ctx, s)
		})
	})
	return running.Wait()
}

func (c *Consumer) config(role string) Config {
	return Config{URL: c.url, Name: c.queue.Name + " " + role, Logger: c.queue.Logger}
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
	declared := c.queue.Topology()
	if err := s.Declare(declared); err != nil {
		return err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.KeepDeclared(ctx, declared) })
	both.Go(func() error { return c.takeWhileReady(ctx, s) })
	return both.Wait()
}

// errNotReady says that the handler failed, and that it could not have handled another message.
var errNotReady = errors.New("the handler is not ready")

// Pauses while the handler is not ready.
const (
	firstReadyPause = time.Second
	maxReadyPause   = 10 * time.Second
	// maxTakePause is for a handler that says that it is ready, and then fails and is not ready, again
	// and again. The broker counts what is given back to the queue, so this must not happen often.
	maxTakePause = 5 * time.Minute
)

// takeWhileReady takes messages while the handler is ready.
func (c *Consumer) takeWhileReady(ctx context.Context, s *Session) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstReadyPause, maxTakePause
	for c.awaitReady(ctx) {
		c.waitFor("")
		before := c.stats.handled.Load()
		err := c.takeOneByOne(ctx, s)
		if err == nil && ctx.Err() == nil {
			err = c.takeBatches(ctx, s)
		}
		if !errors.Is(err, errNotReady) {
			return err
		}
		if c.stats.handled.Load() > before {
			pause.Reset()
		}
		// Perhaps a message has made the handler not ready. The broker counts what is given back, so
		// that message must be alone the next time.
		c.proven.Store(false)
		c.pauseBecause(ctx, err, pause.NextBackOff())
	}
	return nil
}

// awaitReady returns true when the handler is ready, and false when ctx has ended.
func (c *Consumer) awaitReady(ctx context.Context) bool {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstReadyPause, maxReadyPause
	for ctx.Err() == nil {
		_, err := c.ready(ctx)
		if err == nil {
			return true
		}
		c.pauseBecause(ctx, err, pause.NextBackOff())
	}
	return false
}

func (c *Consumer) pauseBecause(ctx context.Context, err error, pause time.Duration) {
	if ctx.Err() != nil {
		return
	}
	c.waitFor("its handler: " + err.Error())
	c.queue.Logger.WarnContext(ctx, "no messages are taken",
		"queue", c.queue.Name, "in", pause.Round(time.Millisecond).String(), "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// takeOneByOne takes one message at a time until c.proven is set. If the copy of a message takes
// long, the next message is taken meanwhile, on another channel: the first one keeps its own.
func (c *Consumer) takeOneByOne(ctx context.Context, s *Session) error {
	for !c.proven.Load() {
		ch, err := c.open(s, 1)
		if err != nil {
			return err
		}
		for err == nil && ctx.Err() == nil && !ch.copyTakesLong() && !c.proven.Load() {
			err = c.takeBatch(ctx, ch, 1)
		}
		ch.end()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func (c *Consumer) takeBatches(ctx context.Context, s *Session) error {
	ch, err := c.open(s, c.queue.Prefetch)
	if err != nil {
		return err
	}
	defer ch.end()
	for {
		if err := c.takeBatch(ctx, ch, c.queue.BatchSize); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// takeBatch waits for a message, and handles what has arrived by then. After the end of ctx it
// takes nothing.
func (c *Consumer) takeBatch(ctx context.Context, ch *channel, limit int) error {
	batch, err := ch.nextBatch(ctx, limit)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil
	case err != nil:
		return err
	}
	messages := c.check(ctx, ch, batch)
	if len(messages) == 0 {
		return nil
	}
	err = c.handle(ctx, messages)
	if err == nil {
		return c.acknowledge(messages)
	}
	return c.handleOneByOne(ctx, ch, messages, err)
}
