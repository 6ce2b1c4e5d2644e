package relay

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// batch is what is being published, each message in the trace of its own order.
type batch struct {
	messages []rabbitmq.Message
	contexts []context.Context
}

// messages starts a span for each event. Each one begins from the worker's ctx
// anew: a trace must not run on into the next event.
func (w *worker) messages(ctx context.Context, events []outbox.Claimed) batch {
	b := batch{
		messages: make([]rabbitmq.Message, 0, len(events)),
		contexts: make([]context.Context, 0, len(events)),
	}
	for _, e := range events {
		ctx, _ := otel.Tracer("relay").Start( //nolint:spancheck // batch.end ends it
			telemetry.WithTraceparent(ctx, e.Traceparent), "publish "+w.config.Exchange,
			trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(
				attribute.String("messaging.system", "rabbitmq"),
				attribute.String("messaging.message.id", e.ID.String()),
				attribute.String("messaging.rabbitmq.destination.routing_key", e.EventKey),
				attribute.Int("event.retry_count", e.RetryCount)))
		b.contexts = append(b.contexts, ctx)
		m := w.config.Message(e)
		m.Headers["traceparent"] = telemetry.Traceparent(ctx)
		b.messages = append(b.messages, m)
	}
	return b
}

// Message is an event as the broker gets it.
func (c Config) Message(e outbox.Claimed) rabbitmq.Message {
	return rabbitmq.Message{
		ID: e.ID.String(), Type: e.EventKey, Exchange: c.Exchange, RoutingKey: e.EventKey,
		ContentType: "application/json", AppID: c.AppID, Timestamp: e.CreatedAt,
		Headers: map[string]any{"traceparent": e.Traceparent},
		Body:    []byte(e.Payload),
	}
}

// end ends the spans with what became of the messages, and logs each one that is
// out.
func (b batch) end(results []rabbitmq.Result) {
	for i, ctx := range b.contexts {
		m, r := b.messages[i], results[i]
		span := trace.SpanFromContext(ctx)
		if r.Outcome == rabbitmq.Confirmed {
			slog.InfoContext(ctx, "message published", "message_id", m.ID, "routing_key", m.RoutingKey)
			span.SetAttributes(attribute.String("outbox.outcome", "published"))
		} else {
			slog.WarnContext(ctx, "message not published", "message_id", m.ID, "routing_key", m.RoutingKey, "error", r.Err)
			span.RecordError(r.Err)
		}
		span.End()
	}
}
