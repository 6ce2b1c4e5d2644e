package relay

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// batch is what is being published, each message in the trace of its own order.
type batch struct {
	events   []outbox.Claimed
	messages []rabbitmq.Message
	contexts []context.Context
}

// messages starts a span for each event. Each one begins from the worker's ctx
// anew: a trace must not run on into the next event.
func (w *worker) messages(ctx context.Context, events []outbox.Claimed) batch {
	b := batch{
		events:   events,
		messages: make([]rabbitmq.Message, 0, len(events)),
		contexts: make([]context.Context, 0, len(events)),
	}
	for _, e := range events {
		ctx, _ := otel.Tracer("relay").Start( //nolint:spancheck // batch.end ends it
			telemetry.WithTraceparent(ctx, e.Traceparent), "publish "+w.config.Exchange,
			trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(w.config.attributes(e)...))
		b.contexts = append(b.contexts, ctx)
		m := w.config.Message(e)
		m.Headers["traceparent"] = telemetry.Traceparent(ctx)
		b.messages = append(b.messages, m)
	}
	return b
}

// attributes are those of OpenTelemetry's conventions for messaging, and our own.
// https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/
func (c Config) attributes(e outbox.Claimed) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemRabbitMQ,
		semconv.MessagingOperationTypeSend,
		semconv.MessagingOperationName("publish"),
		semconv.MessagingDestinationName(c.Exchange),
		semconv.MessagingRabbitMQDestinationRoutingKey(e.EventKey),
		semconv.MessagingMessageID(e.ID.String()),
		semconv.MessagingMessageBodySize(len(e.Payload)),
		attribute.Int("event.retry_count", e.RetryCount),
	}
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

// end ends the spans with what becomes of the messages, and logs each one that is
// out.
func (b batch) end(results []rabbitmq.Result, outcomes []string) {
	for i, ctx := range b.contexts {
		m, r := b.messages[i], results[i]
		span := trace.SpanFromContext(ctx)
		span.SetAttributes(attribute.String("outbox.outcome", outcomes[i]))
		if r.Outcome == rabbitmq.Confirmed {
			slog.InfoContext(ctx, "message published", "message_id", m.ID, "routing_key", m.RoutingKey)
		} else {
			slog.Log(ctx, levels[r.Outcome], "message not published", "message_id", m.ID, "routing_key", m.RoutingKey, "error", r.Err)
			span.RecordError(r.Err)
			span.SetStatus(codes.Error, r.Err.Error())
		}
		span.End()
	}
}

// levels are those of a message that is not out. That no queue is bound is told once for
// its key.
var levels = map[rabbitmq.Outcome]slog.Level{
	rabbitmq.Returned: slog.LevelDebug, rabbitmq.Refused: slog.LevelWarn,
	rabbitmq.Unknown: slog.LevelWarn, rabbitmq.Invalid: slog.LevelWarn,
}
