package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/batch"
)

// Headers of the copies. None begins with x-: those are the broker's.
const (
	RetryCountHeader       = "retry-count"       // how many retries the message has had
	ElsewhereCountHeader   = "elsewhere-count"   // how often another delivery of it was in hand
	DeferredCountHeader    = "deferred-count"    // how often the mail server put it off
	FailureCodeHeader      = "failure-code"      // why it is a dead letter, from a small set
	FailureReasonHeader    = "failure-reason"    // why it came here, for people
	FailedAtHeader         = "failed-at"         // when it became a dead letter, by the database's clock, RFC 3339, for people
	OriginalExchangeHeader = "original-exchange" // where it was published first
)

// maxReason bounds the header failure-reason, in bytes.
const maxReason = 512

// putElsewhere finds the place for a message that cannot have its effect now: a retry
// queue, or the dead letters. If the session has ended, that is the queue it came from.
func (c *Consumer) putElsewhere(ctx context.Context, m *message, err error) (outcome, error) {
	if ctx.Err() != nil && ended(ctx, err) {
		return "", err
	}
	if errors.Is(err, errHeldTooLong) {
		// It counts nothing: what the message needs was away.
		return c.retryLater(ctx, m, c.lastTier(), nil, err)
	}
	if elsewhere, ok := errors.AsType[Elsewhere](err); ok {
		return c.comeAgain(ctx, m, ElsewhereCountHeader, maxElsewhere, neverCompleted, elsewhere)
	}
	if deferred, ok := errors.AsType[Deferred](err); ok {
		return c.comeAgain(ctx, m, DeferredCountHeader, maxDeferred, retriesExhausted, deferred)
	}
	c.metrics.failed.Inc()
	if permanent, ok := errors.AsType[Permanent](err); ok {
		return c.deadLetter(ctx, m, permanent.DeadLetterCode(), err)
	}
	return c.retry(ctx, m, err)
}

// ended reports whether err only says that the time is over: of the session, or of the
// consumer.
func ended(ctx context.Context, err error) bool {
	return errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled) || errors.Is(err, batch.ErrStopped)
}

// release gives back the lease of a notification that was not sent, and then the message's id.
// It does so in the background, because the database may be away. Only another delivery of the
// same message waits for it.
func (c *Consumer) release(ctx context.Context, m *message, free func()) {
	if !m.leased {
		free()
		return
	}
	c.running.Go(func() {
		defer free()
		c.effect.Release(ctx, m.id)
	})
}

// retry spends one of the message's retries.
func (c *Consumer) retry(ctx context.Context, m *message, err error) (outcome, error) {
	spent := countIn(m.Message, RetryCountHeader)
	if spent >= len(c.config.Retries) {
		c.metrics.exhaustions.Inc()
		return c.deadLetter(ctx, m, retriesExhausted, err)
	}
	c.metrics.retries.Inc()
	return c.retryLater(ctx, m, spent, map[string]any{RetryCountHeader: int64(spent + 1)}, err)
}

const (
	// maxElsewhere is how often a message may wait for the lease of another process. As a rule
	// that process finishes, or dies and its lease ends. A message that kills each process is
	// not stopped by the delivery limit, because the broker starts its count again for each
	// copy. So beyond this many waits, assume that the message crashes its handler.
	maxElsewhere = 50
	// maxDeferred is how often the mail server may put a message off while it takes others:
	// for more than 8 hours, with the default delays.
	maxDeferred = 100
)

// comeAgain retries later without spending a retry, at most limit times.
func (c *Consumer) comeAgain(ctx context.Context, m *message, counter string, limit int, code string, err error) (outcome, error) {
	times := countIn(m.Message, counter)
	if times >= limit {
		c.metrics.failed.Inc()
		return c.deadLetter(ctx, m, code, err)
	}
	tier := 0 // a lease ends about when the shortest delay does
	if counter == DeferredCountHeader {
		tier = min(times, c.lastTier())
	}
	return c.retryLater(ctx, m, tier, map[string]any{counter: int64(times + 1)}, err)
}

func (c *Consumer) lastTier() int { return len(c.config.Retries) - 1 }

// retryLater copies the message to a retry queue, from where it comes back.
func (c *Consumer) retryLater(ctx context.Context, m *message, tier int, counters map[string]any, err error) (outcome, error) {
	headers := map[string]any{
		RetryCountHeader:    int64(countIn(m.Message, RetryCountHeader)),
		FailureReasonHeader: shorten(err.Error()),
	}
	maps.Copy(headers, counters)
	exchange := c.config.Retries[tier]
	slog.WarnContext(ctx, "message waits for a retry", "message_id", m.ID, "in", exchange, "retry_count", headers[RetryCountHeader], "error", err)
	return retried, c.moveTo(ctx, m, exchange, headers, nil)
}

// deadLetter copies the message to the dead letters.
func (c *Consumer) deadLetter(ctx context.Context, m *message, code string, err error) (outcome, error) {
	slog.ErrorContext(ctx, "message dead-lettered", "message_id", m.ID, "routing_key", m.RoutingKey, "failure_code", code, "error", err)
	headers := map[string]any{
		RetryCountHeader:    int64(countIn(m.Message, RetryCountHeader)),
		FailureCodeHeader:   code,
		FailureReasonHeader: shorten(err.Error()),
	}
	copied := func() error { return nil }
	if _, permanent := errors.AsType[Permanent](err); permanent && m.leased {
		copied = func() error {
			m.leased = false
			return c.effect.Reject(ctx, m.id, err.Error())
		}
	}
	return deadLettered, c.moveTo(ctx, m, c.config.DeadLetters, headers, copied)
}

// moveTo publishes a copy, and acknowledges the original once the copy is confirmed. As
// long as the copy cannot be made, the original keeps its place in the prefetch. After
// [Config.MaxHold] it goes back to the queue.
//
// A message whose body or headers are too large cannot be published. It is rejected, and the
// broker itself moves it to the dead letters.
func (c *Consumer) moveTo(ctx context.Context, m *message, exchange string, headers map[string]any, copied func() error) error {
	m.onlyWaits()
	if m.tooLarge() {
		return m.Reject()
	}
	waited := c.metrics.waiting(exchange == c.config.DeadLetters)
	defer waited()
	err := c.copyUntilDone(ctx, m, c.copyFor(m, exchange, headers))
	switch {
	case errors.Is(err, rabbitmq.ErrInvalid):
		return m.Reject()
	case errors.Is(err, errHeldTooLong):
		c.metrics.givenUp.Inc()
		return errors.Join(errGivenBack, err, m.Requeue())
	case err != nil:
		return err
	}
	crashpoint.At("consumer.copied")
	if copied != nil {
		if err := copied(); err != nil {
			return err
		}
	}
	return m.Ack()
}

// errGivenBack says that the message went back to its queue.
var errGivenBack = errors.New("no copy could be made, the message goes back to its queue")

func (c *Consumer) copyFor(m *message, exchange string, headers map[string]any) rabbitmq.Message {
	copied := m.Copy()
	copied.Exchange = exchange
	if _, known := copied.Headers[OriginalExchangeHeader]; !known {
		copied.Headers[OriginalExchangeHeader] = m.Exchange
	}
	maps.Copy(copied.Headers, headers)
	return copied
}

// Pauses between the attempts at a copy.
const (
	firstCopyPause   = 250 * time.Millisecond
	longestCopyPause = 10 * time.Second
)

func (c *Consumer) copyUntilDone(ctx context.Context, m *message, copied rabbitmq.Message) error {
	held, cancel := context.WithDeadlineCause(ctx, m.copyDeadline(c.config.MaxHold), errHeldTooLong)
	defer cancel()
	finish, done := c.lasting(ctx)
	defer done()
	toDeadLetters := copied.Exchange == c.config.DeadLetters
	again := func(err error, in time.Duration) {
		c.metrics.notCopied(toDeadLetters)
		slog.WarnContext(ctx, "no copy yet, trying again",
			"message_id", m.ID, "exchange", copied.Exchange, "in", in.Round(time.Millisecond).String(), "error", err)
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstCopyPause, longestCopyPause
	_, err := backoff.Retry(held, func() (struct{}, error) {
		if at, known := c.clock.now(); known && toDeadLetters {
			copied.Headers[FailedAtHeader] = at.UTC().Format(time.RFC3339)
		}
		err := c.publish(finish, copied)
		if errors.Is(err, rabbitmq.ErrInvalid) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
	if err != nil {
		if held.Err() != nil {
			err = errors.Join(context.Cause(held), err)
		}
		return fmt.Errorf("copying message %s to %s: %w", m.ID, copied.Exchange, err)
	}
	c.metrics.copied(toDeadLetters)
	return nil
}

// copyDeadline is when the attempts at a copy end. Each message gets at least half of maxHold
// for its copy, also one that a gate has held for all of maxHold. One and a half times maxHold
// is still far below the broker's consumer timeout.
func (m *message) copyDeadline(maxHold time.Duration) time.Time {
	deadline := m.Arrived.Add(maxHold)
	if time.Until(deadline) < maxHold/2 {
		deadline = time.Now().Add(maxHold / 2)
	}
	return deadline
}

// maxPublish is how long one attempt at a copy waits for a session with the broker.
const maxPublish = 10 * time.Second

func (c *Consumer) publish(ctx context.Context, m rabbitmq.Message) error {
	ctx, cancel := context.WithTimeout(ctx, maxPublish)
	defer cancel()
	return c.outlet.Publish(ctx, m)
}

// countIn reads a header that anybody may have written.
func countIn(m rabbitmq.Message, header string) int {
	switch n := m.Headers[header].(type) {
	case int64:
		return int(max(0, n))
	case int32:
		return int(max(0, n))
	default:
		return 0
	}
}

func shorten(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return strings.ToValidUTF8(reason, "")
}
