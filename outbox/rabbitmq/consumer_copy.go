package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/outbox/publish"
)

// retry moves a message to the next retry queue, or to the dead letters if it has failed for too
// long. It comes back from the retry queue after the delay.
func (c *Consumer) retry(ctx context.Context, ch *channel, m *message, err error, now time.Time) {
	first := timeOf(m.Message, FirstFailedAtHeader, now)
	if now.Sub(first) >= c.queue.GiveUp {
		code := CodeExhausted
		if errors.Is(err, errPanic) {
			code = CodePanicked
		}
		c.deadLetter(ctx, ch, m, code, err)
		return
	}
	retries := counter(m.Message, RetryCountHeader)
	delay := c.queue.Retry[min(retries, int64(len(c.queue.Retry)-1))]
	c.queue.Logger.WarnContext(ctx, "message waits for a retry",
		"message_id", m.ID, "queue", c.queue.Name, "in", delay.String(), "retry_count", retries+1, "error", err)
	moved := m.copyTo(c.queue.retryExchange(delay), map[string]any{
		RetryCountHeader:    retries + 1,
		FirstFailedAtHeader: first.UTC().Format(time.RFC3339Nano),
		FailureReasonHeader: truncate(err.Error()),
	})
	c.move(ctx, ch, m, moved, "retried", &c.stats.retried)
}

// deadLetter moves a message to the dead letters. A message that is too large for a copy is
// rejected, and the broker itself moves it, without a reason. So does one whose headers cannot be
// sent.
func (c *Consumer) deadLetter(ctx context.Context, ch *channel, m *message, code string, err error) {
	if m.Size > MaxBody {
		err = fmt.Errorf("%w: %d bytes, at most %d", publish.ErrTooLarge, m.Size, MaxBody)
	}
	c.queue.Logger.ErrorContext(ctx, "message dead-lettered",
		"message_id", m.ID, "queue", c.queue.Name, "routing_key", m.RoutingKey, "failure_code", code, "error", err)
	headers := map[string]any{
		RetryCountHeader:    counter(m.Message, RetryCountHeader),
		FailureCodeHeader:   code,
		FailureReasonHeader: truncate(err.Error()),
	}
	if now, known := c.clock.now(); known {
		headers[FailedAtHeader] = now.UTC().Format(time.RFC3339)
	}
	moved := m.copyTo(c.queue.deadLetterExchange(), headers)
	delete(moved.Headers, FirstFailedAtHeader) // if somebody replays it, its time begins again
	c.move(ctx, ch, m, moved, "dead_lettered", &c.stats.deadLettered)
}

// permanent returns the code of an error that says that to try again does not help.
func permanent(err error) (code string, ok bool) {
	if own, ok := errors.AsType[interface {
		error
		DeadLetterCode() string
	}](err); ok {
		return own.DeadLetterCode(), true
	}
	return CodePermanent, errors.Is(err, ErrPermanent)
}

// copyTo returns a copy for this exchange, with these headers.
func (m *message) copyTo(exchange string, headers map[string]any) Message {
	moved := m.Copy()
	moved.Exchange = exchange
	if _, known := moved.Headers[OriginalExchangeHeader]; !known {
		moved.Headers[OriginalExchangeHeader] = m.Exchange
	}
	maps.Copy(moved.Headers, headers)
	return moved
}

// move publishes the copy, and acknowledges the original when the copy is confirmed. It does so in
// a goroutine of its own: until then the original keeps its place in the prefetch, and other
// messages go on.
func (c *Consumer) move(ctx context.Context, ch *channel, m *message, moved Message, outcome string, count *atomic.Uint64) {
	if !c.takePlace(ctx) { // it comes again
		m.endSpan("failed", context.Cause(ctx))
		return
	}
	ch.copies.Add(1)
	c.moving.Go(func() {
		defer ch.copies.Done()
		defer func() { <-c.places }()
		err := c.publishUntilConfirmed(ctx, m, moved)
		switch {
		case errors.Is(err, publish.ErrInvalid):
			err = m.Reject()
		case err == nil:
			err = m.Ack()
		}
		if err != nil {
			c.queue.Logger.WarnContext(ctx, "not acknowledged, it will come again", "message_id", m.ID, "error", err)
		}
		c.done(m, outcome, count, err)
	})
}

// takePlace returns false if there is no place before the end of ctx.
func (c *Consumer) takePlace(ctx context.Context) bool {
	select {
	case c.places <- struct{}{}:
		return true
	default:
	}
	select {
	case c.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Pauses between the attempts at a copy.
const (
	firstCopyPause = 250 * time.Millisecond
	maxCopyPause   = 10 * time.Second
	// copyTimeout is how long one attempt waits for a session with the broker.
	copyTimeout = 10 * time.Second
)

// publishUntilConfirmed tries until the broker has confirmed the copy, or until ctx ends: then the
// original comes again. An attempt that has begun goes on, until c.finish.
func (c *Consumer) publishUntilConfirmed(ctx context.Context, m *message, moved Message) error {
	if m.Size > MaxBody {
		return publish.ErrTooLarge
	}
	lasting, cancel := until(ctx, c.finish)
	defer cancel()
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstCopyPause, maxCopyPause
	failures := 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(lasting, copyTimeout)
		defer cancel()
		err := c.copies.Publish(ctx, moved)
		if errors.Is(err, publish.ErrInvalid) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		c.stats.copyFailures.Add(1)
		if failures++; failures == 1 {
			c.queue.Logger.WarnContext(ctx, "no copy yet, trying until there is one",
				"message_id", m.ID, "exchange", moved.Exchange, "error", err)
		}
	}))
	if err != nil {
		return fmt.Errorf("copying to %s: %w", moved.Exchange, err)
	}
	return nil
}
