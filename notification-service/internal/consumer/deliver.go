package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/grace"
	"example.com/transactional-outbox/internal/rabbitmq"
)

// deliver handles one delivery to its end and reports whether the broker was told
// so. If not, because ctx ended first or the session did, it delivers it again.
func (c *Consumer[E]) deliver(ctx context.Context, d rabbitmq.Delivery) (settled bool) {
	traced, span := c.startSpan(ctx, d)
	defer span.End()
	slog.InfoContext(traced, "message arrived", "message_id", d.ID, "routing_key", d.RoutingKey, "redelivered", d.Redelivered)
	crashpoint.At("consumer.arrived", d.ID)
	finish, done := grace.Period(traced, maxFinish)
	defer done()
	end, err := c.bringToAnEnd(traced, finish, d)
	if err == nil {
		err = end.tell()
	}
	note(span, end.outcome, err)
	if err != nil {
		slog.WarnContext(traced, "not acknowledged, it will come again", "message_id", d.ID, "error", err)
		return false
	}
	c.metrics.count(end.outcome)
	return true
}

// maxFinish is how long the delivery in hand may take after the consumer was asked to
// end. It leaves the process time to end within the 25 s that it has.
const maxFinish = 20 * time.Second

// end is what became of a delivery, and how the broker is told.
type end struct {
	outcome outcome
	tell    func() error
}

// How often an error may be blamed on a dependency that answers when it is asked. It
// may have been away for a moment; after that, the message itself is the trouble.
const maxBlames = 3

// bringToAnEnd tries until the message has its effect or waits elsewhere: in a retry
// queue, or among the dead letters. The end of ctx ends the waiting; that of finish
// ends a try.
func (c *Consumer[E]) bringToAnEnd(ctx, finish context.Context, d rabbitmq.Delivery) (end, error) {
	held, cancel := context.WithDeadlineCause(ctx, d.Arrived.Add(c.config.MaxHold), errHeldTooLong)
	defer cancel()
	for blames := 0; ; {
		if err := c.awaitAll(held); errors.Is(err, errHeldTooLong) {
			return c.putAside(ctx, finish, d, err)
		} else if err != nil {
			return end{}, err
		}
		outcome, err := c.try(finish, d)
		if err == nil {
			crashpoint.At("consumer.completed")
			return end{outcome, d.Ack}, nil
		}
		needed, blamed := c.blamed(err)
		if !blamed || blames == maxBlames {
			return c.giveAway(ctx, finish, d, err)
		}
		slog.WarnContext(ctx, "message held", "message_id", d.ID, "dependency", needed.name, "error", err)
		if !needed.away(finish) {
			blames++
		}
	}
}

var errHeldTooLong = errors.New("held for as long as the broker may wait")

// blamed is the dependency whose fault err is said to be.
func (c *Consumer[E]) blamed(err error) (*dependency, bool) {
	away, ok := errors.AsType[Unavailable](err)
	if !ok {
		return nil, false
	}
	d, known := c.dependencies[away.Dependency()]
	return d, known
}

const (
	maxTry  = 40 * time.Second // for one try
	maxWait = 3 * time.Second  // for another delivery of the same message, which is in hand
)

// try makes one attempt at the effect.
func (c *Consumer[E]) try(ctx context.Context, d rabbitmq.Delivery) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTry)
	defer cancel()
	return backoff.Retry(ctx, func() (outcome, error) {
		outcome, err := c.cause(ctx, d)
		if _, elsewhere := errors.AsType[Elsewhere](err); err != nil && !elsewhere {
			err = backoff.Permanent(err)
		}
		return outcome, err
	}, backoff.WithMaxElapsedTime(maxWait))
}
