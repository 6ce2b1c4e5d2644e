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
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
)

// Headers of the copies. None begins with x-: those are the broker's.
const (
	RetryCountHeader       = "retry-count"       // how many retries the message has had
	ElsewhereCountHeader   = "elsewhere-count"   // how often another delivery of it was in hand
	FailureCodeHeader      = "failure-code"      // why it is a dead letter, from a small set
	FailureReasonHeader    = "failure-reason"    // why it came here, for people
	FailedAtHeader         = "failed-at"         // when it became a dead letter, by the database's clock, RFC 3339, for people
	OriginalExchangeHeader = "original-exchange" // where it was published first
)

// maxReason bounds the header failure-reason, in bytes.
const maxReason = 512

// giveAway finds the place for a message that failed.
func (c *Consumer[E]) giveAway(ctx, finish context.Context, d rabbitmq.Delivery, err error) (end, error) {
	if elsewhere, ok := errors.AsType[Elsewhere](err); ok {
		return c.yield(ctx, finish, d, elsewhere)
	}
	c.metrics.failed.Inc()
	if permanent, ok := errors.AsType[Permanent](err); ok {
		return c.bury(ctx, finish, d, permanent.DeadLetterCode(), err)
	}
	spent := retryCount(d.Message)
	if spent >= len(c.config.Retries) {
		c.metrics.exhaustions.Inc()
		return c.bury(ctx, finish, d, retriesExhausted, err)
	}
	c.metrics.retries.Inc()
	return c.hop(ctx, finish, d, c.config.Retries[spent], RetryCountHeader, spent+1, err)
}

// maxElsewhere is how often a message may give way to another delivery of it. That one
// ends, or its process dies; and the broker, which counts such deaths, begins again with
// each copy. So what never comes to an end is a message that kills. Several hops go
// into one lease, and all of them into far more than one.
const maxElsewhere = 50

// yield lets another delivery of the message come to its end first. It is no retry.
func (c *Consumer[E]) yield(ctx, finish context.Context, d rabbitmq.Delivery, err error) (end, error) {
	times := countIn(d.Message, ElsewhereCountHeader)
	if times >= maxElsewhere {
		return c.bury(ctx, finish, d, neverCompleted, err)
	}
	return c.hop(ctx, finish, d, c.config.Retries[0], ElsewhereCountHeader, times+1, err)
}

// putAside makes room for a message that was held as long as the broker waits for an
// ack. It counts nothing: what the message needs was away.
func (c *Consumer[E]) putAside(ctx, finish context.Context, d rabbitmq.Delivery, err error) (end, error) {
	longest := c.config.Retries[len(c.config.Retries)-1]
	return c.hop(ctx, finish, d, longest, RetryCountHeader, retryCount(d.Message), err)
}

// hop copies the message to a retry queue, from where it comes back, with one of its
// counts set.
func (c *Consumer[E]) hop(ctx, finish context.Context, d rabbitmq.Delivery, exchange, header string, count int, err error) (end, error) {
	headers := map[string]any{
		RetryCountHeader:    int64(retryCount(d.Message)),
		FailureReasonHeader: shorten(err.Error()),
	}
	headers[header] = int64(count)
	slog.WarnContext(ctx, "message put aside", "message_id", d.ID, "until", exchange, "retry_count", headers[RetryCountHeader], "error", err)
	tell, failed := c.copyTo(ctx, finish, d, exchange, headers)
	return end{retried, tell}, failed
}

// bury copies the message to the dead letters.
func (c *Consumer[E]) bury(ctx, finish context.Context, d rabbitmq.Delivery, code string, err error) (end, error) {
	slog.ErrorContext(ctx, "message dead-lettered", "message_id", d.ID, "routing_key", d.RoutingKey, "failure_code", code, "error", err)
	tell, failed := c.copyTo(ctx, finish, d, c.config.DeadLetters, map[string]any{
		RetryCountHeader:    int64(retryCount(d.Message)),
		FailureCodeHeader:   code,
		FailureReasonHeader: shorten(err.Error()),
	})
	return end{deadLettered, tell}, failed
}

// copyTo publishes a copy and returns how to tell the broker that the original is not
// needed any more: that may happen only after the copy is confirmed. As long as it
// cannot be made, the original stays out.
//
// What no publisher may send (its headers are too large, for one) the broker moves to
// the dead letters itself, when it is rejected.
func (c *Consumer[E]) copyTo(ctx, finish context.Context, d rabbitmq.Delivery, exchange string, headers map[string]any) (func() error, error) {
	m := d.Copy()
	m.Exchange = exchange
	if _, known := m.Headers[OriginalExchangeHeader]; !known {
		m.Headers[OriginalExchangeHeader] = d.Exchange
	}
	maps.Copy(m.Headers, headers)
	toDeadLetters := exchange == c.config.DeadLetters
	again := func(err error, in time.Duration) {
		c.metrics.notCopied(toDeadLetters)
		slog.WarnContext(ctx, "no copy yet, trying again",
			"message_id", d.ID, "exchange", exchange, "in", in.Round(time.Millisecond).String(), "error", err)
	}
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = longestPause
	return backoff.Retry(ctx, func() (func() error, error) {
		if toDeadLetters {
			at, err := c.now(finish)
			if err != nil {
				return nil, err
			}
			m.Headers[FailedAtHeader] = at.UTC().Format(time.RFC3339)
		}
		switch err := c.publish(finish, m); {
		case errors.Is(err, rabbitmq.ErrInvalid):
			return d.Reject, nil
		case err != nil:
			return nil, fmt.Errorf("copying message %s to %s: %w", d.ID, exchange, err)
		}
		c.metrics.copied(toDeadLetters)
		crashpoint.At("consumer.copied")
		return d.Ack, nil
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
}

// now is what the database says it is: the clocks of the replicas may differ.
func (c *Consumer[E]) now(ctx context.Context) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err = c.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		at, err = postgres.ReadOne(ctx, tx, "SELECT now()", nil, pgx.RowTo[time.Time])
		return err
	})
	if err != nil {
		return at, fmt.Errorf("asking the database for the time: %w", err)
	}
	return at, nil
}

// maxPublish is how long one attempt at a copy waits for a session with the broker.
const maxPublish = 10 * time.Second

func (c *Consumer[E]) publish(ctx context.Context, m rabbitmq.Message) error {
	ctx, cancel := context.WithTimeout(ctx, maxPublish)
	defer cancel()
	return c.outlet.Publish(ctx, m)
}

// retryCount is how many retries a message has had.
func retryCount(m rabbitmq.Message) int { return countIn(m, RetryCountHeader) }

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
