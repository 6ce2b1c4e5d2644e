package relay

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// batch is the events that are being published. Each message is in the trace of its own order.
type batch struct {
	events   []outbox.Claimed
	messages []publish.Message
	contexts []context.Context
}

// newBatch makes the messages and starts a span for each. Each span starts from the worker's
// ctx, so that the trace of one event does not continue in the next.
func (w *worker) newBatch(ctx context.Context, events []outbox.Claimed) batch {
	b := batch{
		events:   events,
		messages: make([]publish.Message, 0, len(events)),
		contexts: make([]context.Context, 0, len(events)),
	}
	tracer, name, producer := otel.Tracer("relay"), "publish "+w.config.Destination, trace.WithSpanKind(trace.SpanKindProducer)
	for _, e := range events {
		ctx, span := tracer.Start(telemetry.WithTraceparent(ctx, e.Traceparent), name, producer)
		if span.IsRecording() {
			span.SetAttributes(w.config.attributes(e)...)
		}
		b.contexts = append(b.contexts, ctx)
		m := w.config.Message(e)
		m.Headers["traceparent"] = telemetry.Traceparent(ctx)
		b.messages = append(b.messages, m)
	}
	return b
}

// attributes are those of OpenTelemetry's conventions for messaging, and event.retry_count.
// https://opentelemetry.io/docs/specs/semconv/messaging/
func (c Config) attributes(e outbox.Claimed) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(c.System),
		semconv.MessagingOperationTypeSend,
		semconv.MessagingOperationName("publish"),
		semconv.MessagingDestinationName(c.Destination),
		semconv.MessagingMessageID(e.ID.String()),
		semconv.MessagingMessageBodySize(len(e.Payload)),
		attribute.Int("event.retry_count", e.RetryCount),
	}
	if c.System == semconv.MessagingSystemRabbitMQ.Value.AsString() { // the conventions of others have no name for it
		attributes = append(attributes, semconv.MessagingRabbitMQDestinationRoutingKey(e.EventKey))
	}
	return attributes
}

// Message returns an event as it is published.
func (c Config) Message(e outbox.Claimed) publish.Message {
	return publish.Message{
		ID: e.ID.String(), Destination: c.Destination, Key: e.EventKey, Group: e.AggregateID.String(),
		ContentType: "application/json", AppID: c.AppID, Timestamp: e.CreatedAt,
		Headers: map[string]any{"traceparent": e.Traceparent},
		Body:    []byte(e.Payload),
	}
}

// endSpans ends the spans with the outcomes, and logs whether each message was published.
func (b batch) endSpans(results []publish.Result, outcomes []string) {
	for i, ctx := range b.contexts {
		m, r := b.messages[i], results[i]
		span := trace.SpanFromContext(ctx)
		if span.IsRecording() {
			span.SetAttributes(attribute.String("outbox.outcome", outcomes[i]))
		}
		if r.Outcome == publish.Confirmed {
			telemetry.Milestone(ctx, "message published", "message_id", m.ID, "routing_key", m.Key)
		} else {
			slog.Log(ctx, logLevels[r.Outcome], "message not published", "message_id", m.ID, "routing_key", m.Key, "error", r.Err)
			span.RecordError(r.Err)
			span.SetStatus(codes.Error, r.Err.Error())
		}
		span.End()
	}
}

// logLevels are for messages that were not published. Returned has a low level, because the
// relay logs once for each key that no queue is bound.
var logLevels = map[publish.Outcome]slog.Level{
	publish.Returned: slog.LevelDebug, publish.Refused: slog.LevelWarn,
	publish.Unknown: slog.LevelWarn, publish.Invalid: slog.LevelWarn,
}
