package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/notification-service/internal/inbox"
)

// longestHold is the longest pause between two tries at a message that is held.
const longestHold = 10 * time.Second

// deliver handles one delivery to its end: an ack, or the end of ctx while what it
// needs is away. Without an ack, the broker delivers it again.
func (c *Consumer[E]) deliver(ctx context.Context, d rabbitmq.Delivery) {
	traced, span := startSpan(ctx, d)
	defer span.End()
	slog.InfoContext(traced, "message arrived", "message_id", d.ID, "routing_key", d.RoutingKey, "redelivered", d.Redelivered)

	settle, err := c.handleUntilDone(ctx, traced, d)
	if err != nil {
		span.RecordError(err)
		slog.WarnContext(traced, "message goes back to its queue", "message_id", d.ID, "error", err)
		return
	}
	if err := settle(); err != nil {
		slog.WarnContext(traced, "not acknowledged, it will come again", "message_id", d.ID, "error", err)
	}
}

// handleUntilDone holds the message while what it needs is away. The end of
// stopping ends the tries, and not a try: that has work of its own.
func (c *Consumer[E]) handleUntilDone(stopping, traced context.Context, d rabbitmq.Delivery) (settle func() error, err error) {
	hold := backoff.NewExponentialBackOff()
	hold.MaxInterval = longestHold
	again := func(err error, in time.Duration) {
		slog.WarnContext(traced, "message held, trying again", "message_id", d.ID, "in", in.Round(time.Millisecond).String(), "error", err)
	}
	return backoff.Retry(stopping, func() (func() error, error) {
		return c.handle(context.WithoutCancel(traced), d)
	}, backoff.WithBackOff(hold), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
}

// handle makes one try, and returns what is left to tell the broker.
func (c *Consumer[E]) handle(ctx context.Context, d rabbitmq.Delivery) (settle func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTry)
	defer cancel()
	err = c.cause(ctx, d)
	if permanent, ok := errors.AsType[Permanent](err); ok {
		return c.bury(ctx, d, permanent)
	}
	return d.Ack, err
}

// maxTry bounds one try, far below the broker's consumer timeout of 30 minutes.
const maxTry = 40 * time.Second

// cause brings about the effect of a message, once.
func (c *Consumer[E]) cause(ctx context.Context, d rabbitmq.Delivery) error {
	id, err := uuid.Parse(d.ID)
	if err != nil {
		return malformed{fmt.Errorf("message id %q: %w", d.ID, err)}
	}
	event, err := c.effect.Parse(d.Message)
	if err != nil {
		return malformed{err}
	}
	err = c.db.InTx(ctx, func(tx *postgres.Tx) error {
		first, err := inbox.Record(ctx, tx, id)
		if err != nil || !first {
			return err
		}
		return c.effect.Record(ctx, tx, id, event)
	})
	if err != nil {
		return err
	}
	return c.effect.Complete(ctx, id)
}

func startSpan(ctx context.Context, d rabbitmq.Delivery) (context.Context, trace.Span) {
	parent, _ := d.Headers["traceparent"].(string)
	return otel.Tracer("consumer").Start( //nolint:spancheck // the caller ends it
		telemetry.WithTraceparent(ctx, parent), "process "+d.RoutingKey,
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", "rabbitmq"),
			attribute.String("messaging.message.id", d.ID),
			attribute.String("messaging.rabbitmq.destination.routing_key", d.RoutingKey)))
}
