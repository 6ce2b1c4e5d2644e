package outbox

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// batch is the events that are being published. Each message is in the trace of its own event.
type batch struct {
	events   []store.Event
	messages []publish.Message
	contexts []context.Context
}

// newBatch makes the messages and starts a span for each. Each span starts from the worker's
// ctx, so that the trace of one event does not continue in the next.
func (w *worker) newBatch(ctx context.Context, events []store.Event) batch {
	b := batch{
		events:   events,
		messages: make([]publish.Message, 0, len(events)),
		contexts: make([]context.Context, 0, len(events)),
	}
	tracer, name := w.config.TracerProvider.Tracer("example.com/transactional-outbox/outbox"), "publish "+w.destination
	for _, e := range events {
		parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{store.TraceHeader: e.Traceparent})
		ctx, span := tracer.Start(parent, name, trace.WithSpanKind(trace.SpanKindProducer))
		if span.IsRecording() {
			span.SetAttributes(w.attributes(e)...)
		}
		m := e.Message(w.config.AppID)
		if own := traceparent(ctx); own != "" {
			m.Headers[store.TraceHeader] = own
		}
		b.contexts, b.messages = append(b.contexts, ctx), append(b.messages, m)
	}
	return b
}

// attributes are those of OpenTelemetry's conventions for messaging, and event.retry_count.
// https://opentelemetry.io/docs/specs/semconv/messaging/
func (r *Relay) attributes(e store.Event) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(r.system),
		semconv.MessagingOperationTypeSend,
		semconv.MessagingOperationName("publish"),
		semconv.MessagingDestinationName(r.destination),
		semconv.MessagingMessageID(e.ID.String()),
		semconv.MessagingMessageBodySize(len(e.Payload)),
		attribute.Int("event.retry_count", e.RetryCount),
	}
	if r.system == semconv.MessagingSystemRabbitMQ.Value.AsString() { // the conventions of others have no name for it
		attributes = append(attributes, semconv.MessagingRabbitMQDestinationRoutingKey(e.Topic))
	}
	return attributes
}

// endSpans ends the spans with the outcomes, and logs whether each message was published.
func (w *worker) endSpans(b batch, results []publish.Result, outcomes []string) {
	for i, ctx := range b.contexts {
		m, r := b.messages[i], results[i]
		span := trace.SpanFromContext(ctx)
		if span.IsRecording() {
			span.SetAttributes(attribute.String("outbox.outcome", outcomes[i]))
		}
		switch r.Outcome {
		case publish.Confirmed:
			w.log.step(ctx, "message published", "message_id", m.ID, "topic", m.Topic)
			span.End()
			continue
		case publish.Returned: // it is logged once for each topic that no queue is bound
			w.log.DebugContext(ctx, "message not published", "message_id", m.ID, "topic", m.Topic, "error", r.Err)
		default:
			w.log.trouble(ctx, slog.LevelWarn, "message not published", "message_id", m.ID, "topic", m.Topic, "error", r.Err)
		}
		span.RecordError(r.Err)
		span.SetStatus(codes.Error, r.Err.Error())
		span.End()
	}
}

// count counts the outcomes of a batch. Only the latency of its oldest event gets an exemplar: one
// for each batch is enough. Read is how long ago the ages of the events were read.
func (w *worker) count(b batch, results []publish.Result, read time.Duration) {
	c, exemplary := &w.counters, true
	for i, e := range b.events {
		switch results[i].Outcome {
		case publish.Confirmed:
			c.published.Add(1)
			traceID := ""
			if span := trace.SpanContextFromContext(b.contexts[i]); exemplary && span.IsSampled() {
				traceID = span.TraceID().String()
			}
			exemplary = false
			c.latency.observe(e.Age+read.Seconds(), traceID)
		case publish.Returned:
			c.unroutable.Add(1)
		case publish.Refused:
			c.refused.Add(1)
		case publish.Unknown:
			c.publishErrors.Add(1)
		default: // counted when it is written to the outbox
		}
	}
}
