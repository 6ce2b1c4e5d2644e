package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// check returns the messages that may be handled. The others become dead letters.
func (c *Consumer) check(ctx context.Context, ch *channel, batch []Delivery) (good []*message) {
	c.stats.received.Add(uint64(len(batch)))
	for _, d := range batch {
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

// handle calls the handler. A call goes on after the end of ctx, until c.finish.
func (c *Consumer) handle(ctx context.Context, messages []*message) error {
	ctx, cancel := until(ctx, c.finish)
	defer cancel()
	ctx, cancelTimeout := context.WithTimeout(ctx, c.queue.HandleTimeout)
	defer cancelTimeout()
	batch := make([]Message, len(messages))
	for i, m := range messages {
		batch[i] = m.Message
	}
	if len(messages) == 1 {
		ctx = trace.ContextWithSpan(ctx, messages[0].span)
	}
	return withoutPanic(ctx, c.queue.Logger, func() error { return c.handler.Handle(ctx, batch) })
}

// handleOneByOne is for a batch that has failed with err. What it does not come to goes back to the
// queue.
func (c *Consumer) handleOneByOne(ctx context.Context, ch *channel, messages []*message, err error) error {
	for i, m := range messages {
		if len(messages) > 1 {
			if ctx.Err() != nil {
				ch.unhandled = messages[i:]
				return nil
			}
			err = c.handle(ctx, messages[i:i+1])
		}
		if err == nil {
			err = c.acknowledge(messages[i : i+1])
		} else {
			err = c.fail(ctx, ch, m, err)
		}
		if err != nil {
			ch.unhandled = messages[i:]
			return err
		}
	}
	return nil
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
	lasting, cancel := until(ctx, c.finish)
	defer cancel()
	now, notReady := c.ready(lasting)
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
		c.clock.set(now)
	}
	return now, err
}

// acknowledge is for messages that were handled. After an error they come again.
func (c *Consumer) acknowledge(messages []*message) error {
	deliveries := make([]Delivery, len(messages))
	for i, m := range messages {
		deliveries[i] = m.Delivery
	}
	err := ackAll(deliveries)
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

// until returns a context with the values of ctx, which ends only when end does.
func until(ctx, end context.Context) (context.Context, func()) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(end, cancel)
	return lasting, func() {
		stop()
		cancel()
	}
}
