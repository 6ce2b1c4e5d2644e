package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
)

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
	deliveries, err := s.Deliveries(c.queue.Name)
	if err != nil {
		return err
	}
	ch := &channel{Deliveries: deliveries}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstReadyPause, maxTakePause
	for c.awaitReady(ctx) {
		c.waitFor("")
		c.queue.Logger.InfoContext(ctx, "taking messages", "queue", c.queue.Name)
		before := c.stats.handled.Load()
		err := c.take(ctx, ch)
		for err == nil && ctx.Err() == nil {
			err = c.take(ctx, ch)
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

// channel is where the consumer takes messages of a session, and where it must acknowledge them.
type channel struct {
	*Deliveries
	copying atomic.Int64 // messages that wait for the confirm of their copy, and are not acknowledged
	full    bool         // the only place of the prefetch has a message whose copy takes long
}

// take receives messages: one by one until c.proven is set, and batches when it is. If the copy of
// a single message takes long, it ends: the next call has a place for another message. What was not
// handled goes back to the queue, and explicitly: if only the channel ended, RabbitMQ 4.3 would
// count it towards the delivery limit.
func (c *Consumer) take(ctx context.Context, ch *channel) error {
	prefetch, batchSize, proven := 1, 1, c.proven.Load()
	if proven {
		prefetch, batchSize = c.queue.Prefetch, c.queue.BatchSize
	}
	if err := ch.Start(prefetch); err != nil {
		return err
	}
	ch.full = false
	var unhandled []*message
	var err error
	for err == nil && ctx.Err() == nil && !ch.full && c.proven.Load() == proven {
		unhandled, err = c.takeBatch(ctx, ch, batchSize)
	}
	ch.Stop()
	for _, m := range unhandled {
		m.endSpan("requeued", m.Requeue())
	}
	return err
}

// takeBatch waits for a message, and handles what has arrived by then. After the end of ctx it
// takes nothing.
func (c *Consumer) takeBatch(ctx context.Context, ch *channel, limit int) (unhandled []*message, err error) {
	batch, err := ch.nextBatch(ctx, limit)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	messages := c.check(ctx, ch, batch)
	if len(messages) == 0 {
		return nil, nil
	}
	err = c.handle(messages) //nolint:contextcheck // a call goes on until c.finish
	if err == nil {
		return nil, c.acknowledge(ch, messages)
	}
	return c.handleOneByOne(ctx, ch, messages, err)
}

// check returns the messages that may be handled. The others become dead letters.
func (c *Consumer) check(ctx context.Context, ch *channel, batch []Delivery) (good []*message) {
	c.stats.received.Add(uint64(len(batch)))
	for _, d := range batch {
		crashpoint.At("consumer.arrived", d.ID)
		m := c.startSpan(ctx, d)
		err := withoutPanic(ctx, c.queue.Logger, func() error { return c.queue.Check(m.Message) })
		if d.Size > MaxBody || err != nil {
			c.deadLetter(ctx, ch, m, CodeMalformed, err)
			continue
		}
		good = append(good, m)
	}
	return good
}

// handle calls the handler. A call goes on after the end of the session, until c.finish.
func (c *Consumer) handle(messages []*message) error {
	ctx, cancel := context.WithTimeout(c.finish, c.queue.HandleTimeout)
	defer cancel()
	batch := make([]Message, len(messages))
	for i, m := range messages {
		batch[i] = m.Message
	}
	if len(messages) == 1 {
		ctx = trace.ContextWithSpan(ctx, messages[0].span)
	}
	return withoutPanic(ctx, c.queue.Logger, func() error { return c.handler.Handle(ctx, batch) })
}

// handleOneByOne is for a batch that has failed with err. It returns what it does not come to.
func (c *Consumer) handleOneByOne(ctx context.Context, ch *channel, messages []*message, err error) (unhandled []*message, _ error) {
	for i, m := range messages {
		if len(messages) > 1 {
			if ctx.Err() != nil {
				return messages[i:], nil
			}
			err = c.handle(messages[i : i+1]) //nolint:contextcheck // the same
		}
		if err == nil {
			err = c.acknowledge(ch, messages[i:i+1])
		} else {
			err = c.fail(ctx, ch, m, err)
		}
		if err != nil {
			return messages[i:], err
		}
	}
	return nil, nil
}

// fail decides about a message that has failed alone with err.
func (c *Consumer) fail(ctx context.Context, ch *channel, m *message, err error) error {
	if c.finish.Err() != nil {
		return fmt.Errorf("not handled before the end: %w", err)
	}
	if code, ok := permanent(err); ok {
		c.deadLetter(ctx, ch, m, code, err)
		return nil
	}
	now, notReady := c.ready(c.finish) //nolint:contextcheck // the same
	if notReady != nil {
		return fmt.Errorf("%w: %w; the message: %w", errNotReady, notReady, err)
	}
	c.retry(ctx, ch, m, err, now)
	return nil
}

// readyTimeout limits one call of the handler's Ready.
const readyTimeout = 15 * time.Second

// ready returns the handler's time.
func (c *Consumer) ready(ctx context.Context) (now time.Time, err error) {
	now = time.Now()
	if asked, ok := c.handler.(interface {
		Ready(context.Context) (time.Time, error)
	}); ok {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		err = withoutPanic(ctx, c.queue.Logger, func() (err error) {
			now, err = asked.Ready(ctx)
			return err
		})
	}
	if err == nil {
		c.asked.handlersTime, c.asked.ownTime = now, time.Now()
	}
	return now, err
}

// now is the handler's time, without asking it: the database may be away. No message is taken
// before the handler was ready once.
func (c *Consumer) now() time.Time {
	return c.asked.handlersTime.Add(time.Since(c.asked.ownTime)) // by the monotonic clock
}

// acknowledge is for messages that were handled. One frame acknowledges all up to the last one,
// which spares system calls here, and work in the broker. It would also acknowledge what still
// waits for its copy: then each message gets a frame. After an error they come again.
func (c *Consumer) acknowledge(ch *channel, messages []*message) (err error) {
	crashpoint.At("consumer.handled")
	if ch.copying.Load() == 0 {
		err = messages[len(messages)-1].ackAllBefore()
	} else {
		for _, m := range messages {
			err = errors.Join(err, m.Ack())
		}
	}
	for _, m := range messages {
		c.done(m, "handled", &c.stats.handled, err)
	}
	if err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	return nil
}

// done ends the work on a message. An error says that it comes again.
func (c *Consumer) done(m *message, outcome string, count *atomic.Uint64, err error) {
	m.endSpan(outcome, err)
	if err != nil {
		return
	}
	count.Add(1)
	if !m.Redelivered {
		c.proven.Store(true)
	}
}

// errPanic is the error of what panicked.
var errPanic = errors.New("panic")

func withoutPanic(ctx context.Context, log *slog.Logger, do func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			log.ErrorContext(ctx, "panic while handling a message", "error", reason, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errPanic, reason)
		}
	}()
	if err = do(); err != nil {
		_ = err.Error() // a nil pointer in an error may panic here, and must not do so later
	}
	return err
}
