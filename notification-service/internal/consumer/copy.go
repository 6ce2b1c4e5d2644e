package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// move publishes a copy, and acknowledges the original once the copy is confirmed. As long as
// the copy cannot be made, the original keeps its place in the prefetch. After [Config.MaxHold] the
// message goes back to its queue. afterCopy, if there is one, runs between the confirm and the ack.
//
// A message whose body or headers are too large cannot be published. It is rejected, and the
// broker itself moves it to the dead letters.
func (c *Consumer) move(d *delivery, exchange string, headers map[string]any, afterCopy func() error) error {
	d.markWaiting()
	if d.isTooLarge() {
		return d.Reject()
	}
	waitEnded := c.metrics.copyWaits(exchange == c.config.DeadLetterExchange)
	defer waitEnded()
	err := c.publishUntilConfirmed(d, c.newCopy(d, exchange, headers), d.copyDeadline(c.config.MaxHold))
	switch {
	case errors.Is(err, publish.ErrInvalid):
		return d.Reject()
	case errors.Is(err, errHeldTooLong):
		c.metrics.givenUp.Inc()
		return errors.Join(errRequeued, err, c.requeue(d))
	case err != nil:
		return err
	}
	crashpoint.At("consumer.copied")
	if afterCopy != nil {
		if err := afterCopy(); err != nil {
			return err
		}
	}
	return d.Ack()
}

// requeue puts a message back into its queue. If it returned the message, the broker would count
// this, and dead-letter the message at the delivery limit. So it publishes a copy to the queue: for
// the broker this is a new message, and an outage makes no dead letters. If the queue does not take
// the copy either, the message is held as long as possible, and then it is returned.
func (c *Consumer) requeue(d *delivery) error {
	deadline := d.Arrived.Add(c.maxHoldBeforeReturn())
	if err := c.publishUntilConfirmed(d, c.newCopy(d, c.config.RequeueExchange, nil), deadline); err != nil {
		if d.ctx.Err() != nil {
			return err
		}
		return errors.Join(err, d.Requeue())
	}
	return d.Ack()
}

// maxHoldBeforeReturn is how long after its arrival a message is returned, if no queue takes a copy
// of it: two and a half times MaxHold. With 10 minutes this is 25 minutes, and the broker's
// consumer timeout is 30.
func (c *Consumer) maxHoldBeforeReturn() time.Duration { return 5 * c.config.MaxHold / 2 }

// errRequeued says that the message went back to its queue.
var errRequeued = errors.New("no copy could be made, the message goes back to its queue")

func (c *Consumer) newCopy(d *delivery, exchange string, headers map[string]any) rabbitmq.Message {
	m := d.Copy()
	m.Exchange = exchange
	if _, known := m.Headers[OriginalExchangeHeader]; !known {
		m.Headers[OriginalExchangeHeader] = d.Exchange
	}
	maps.Copy(m.Headers, headers)
	return m
}

// Pauses between the attempts at a copy.
const (
	firstCopyPause = 250 * time.Millisecond
	maxCopyPause   = 10 * time.Second
)

// publishUntilConfirmed tries until the broker has confirmed the copy m, or until the deadline.
func (c *Consumer) publishUntilConfirmed(d *delivery, m rabbitmq.Message, deadline time.Time) error {
	ctx, cancel := context.WithDeadlineCause(d.ctx, deadline, errHeldTooLong)
	defer cancel()
	toDeadLetters := m.Exchange == c.config.DeadLetterExchange
	notify := func(err error, in time.Duration) {
		c.metrics.copyFailed(toDeadLetters)
		slog.WarnContext(d.ctx, "no copy yet, trying again",
			"message_id", d.ID, "exchange", m.Exchange, "in", in.Round(time.Millisecond).String(), "error", err)
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstCopyPause, maxCopyPause
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		if now, known := c.clock.now(); known && toDeadLetters {
			m.Headers[FailedAtHeader] = now.UTC().Format(time.RFC3339)
		}
		err := c.publish(d.finish, m)
		if errors.Is(err, publish.ErrInvalid) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(notify))
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return fmt.Errorf("copying message %s to %s: %w", d.ID, m.Exchange, err)
	}
	c.metrics.copyPublished(toDeadLetters)
	return nil
}

// copyDeadline is when the attempts at a copy end. Each message has at least half of maxHold for
// its copy, also a message that a gate has held for all of maxHold. So the attempts end after at
// most one and a half times maxHold, which is far below the broker's consumer timeout.
func (d *delivery) copyDeadline(maxHold time.Duration) time.Time {
	deadline := d.Arrived.Add(maxHold)
	if time.Until(deadline) < maxHold/2 {
		deadline = time.Now().Add(maxHold / 2)
	}
	return deadline
}

// publishTimeout is how long one attempt at a copy waits for a session with the broker.
const publishTimeout = 10 * time.Second

func (c *Consumer) publish(ctx context.Context, m rabbitmq.Message) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return c.publisher.Publish(ctx, m)
}
