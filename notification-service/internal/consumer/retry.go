package consumer

import (
	"context"
	"errors"
	"log/slog"
	"maps"

	"example.com/transactional-outbox/notification-service/internal/batch"
)

// retryOrDeadLetter is for a message that cannot have its effect now. A copy goes to a retry
// queue or to the dead letters. If the session has ended, the broker delivers it again.
func (c *Consumer) retryOrDeadLetter(d *delivery, err error) (outcome, error) {
	if isShutdown(d.ctx, err) {
		return "", err
	}
	if errors.Is(err, errHeldTooLong) {
		// No counter is raised: what the message needs was away.
		return c.retryLater(d, c.lastTier(), nil, err)
	}
	if elsewhere, ok := errors.AsType[LeasedElsewhere](err); ok {
		return c.postpone(d, ElsewhereCountHeader, maxElsewhere, neverCompleted, elsewhere)
	}
	if deferred, ok := errors.AsType[Deferred](err); ok {
		return c.postpone(d, DeferredCountHeader, maxDeferred, retriesExhausted, deferred)
	}
	c.metrics.failed.Inc()
	if permanent, ok := errors.AsType[Permanent](err); ok {
		return c.deadLetter(d, permanent.DeadLetterCode(), err)
	}
	return c.retry(d, err)
}

// isShutdown reports whether ctx has ended and err says only that: the session or the consumer
// has ended.
func isShutdown(ctx context.Context, err error) bool {
	return ctx.Err() != nil &&
		(errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled) || errors.Is(err, batch.ErrStopped))
}

// retry spends one of the message's retries.
func (c *Consumer) retry(d *delivery, err error) (outcome, error) {
	spent := counter(d.Message, RetryCountHeader)
	if spent >= len(c.config.RetryExchanges) {
		c.metrics.exhaustions.Inc()
		return c.deadLetter(d, retriesExhausted, err)
	}
	c.metrics.retries.Inc()
	return c.retryLater(d, spent, map[string]any{RetryCountHeader: int64(spent + 1)}, err)
}

const (
	// maxElsewhere is how often a message may wait for the lease of another process. As a rule
	// that process finishes, or dies and its lease ends. A message that kills each process is
	// not stopped by the delivery limit, because the broker starts its count again for each
	// copy. So beyond this many waits, assume that the message crashes its handler.
	maxElsewhere = 50
	// maxDeferred is how often the mail server may defer a message while it accepts others:
	// for more than 8 hours, with the default delays.
	maxDeferred = 100
)

// postpone retries later without spending a retry, at most limit times.
func (c *Consumer) postpone(d *delivery, header string, limit int, code string, err error) (outcome, error) {
	times := counter(d.Message, header)
	if times >= limit {
		c.metrics.failed.Inc()
		return c.deadLetter(d, code, err)
	}
	tier := 0 // a lease is about as long as the shortest delay
	if header == DeferredCountHeader {
		tier = min(times, c.lastTier())
	}
	return c.retryLater(d, tier, map[string]any{header: int64(times + 1)}, err)
}

func (c *Consumer) lastTier() int { return len(c.config.RetryExchanges) - 1 }

// retryLater moves the message to a retry queue. It comes back from there after the delay.
func (c *Consumer) retryLater(d *delivery, tier int, counters map[string]any, err error) (outcome, error) {
	headers := map[string]any{
		RetryCountHeader:    int64(counter(d.Message, RetryCountHeader)),
		FailureReasonHeader: truncate(err.Error()),
	}
	maps.Copy(headers, counters)
	exchange := c.config.RetryExchanges[tier]
	slog.WarnContext(d.ctx, "message waits for a retry", "message_id", d.ID, "in", exchange, "retry_count", headers[RetryCountHeader], "error", err)
	return retried, c.move(d, exchange, headers, nil)
}
