package relay

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// attributes are those of OpenTelemetry's conventions for messaging, and event.retry_count.
// https://opentelemetry.io/docs/specs/semconv/messaging/
func (r *Relay) attributes(e store.Event) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(r.to.System()),
		semconv.MessagingOperationTypeSend,
		semconv.MessagingOperationName("publish"),
		semconv.MessagingDestinationName(r.destination),
		semconv.MessagingMessageID(e.ID.String()),
		semconv.MessagingMessageBodySize(len(e.Payload)),
		attribute.Int("event.retry_count", e.RetryCount),
	}
	if r.to.System() == semconv.MessagingSystemRabbitMQ.Value.AsString() { // the conventions of others have no name for it
		attributes = append(attributes, semconv.MessagingRabbitMQDestinationRoutingKey(e.Topic))
	}
	return attributes
}

// The values of the span attribute outbox.outcome.
const (
	outcomePublished = "published"
	outcomeRetry     = "retry"   // it is tried again later
	outcomeFailed    = "failed"  // it is not tried again
	outcomeUnknown   = "unknown" // it was not sent, or nobody knows; it is tried again at once
)

// report counts the answer to an event, logs it, and ends the event's span.
func (w *worker) report(it *item, r publish.Result) {
	ctx, span := it.trace, trace.SpanFromContext(it.trace)
	defer span.End()
	outcome := outcomeRetry
	switch {
	case it.verdict.published:
		traceID := ""
		if own := span.SpanContext(); own.IsSampled() {
			traceID = own.TraceID().String()
		}
		w.counters.count(func(s *Counters) {
			s.Published++
			s.Latency.observe(it.event.Age+time.Since(it.batch.read).Seconds(), traceID)
		})
		w.log.Step(ctx, "message published", "message_id", it.message.ID, "topic", it.message.Topic)
		span.SetAttributes(attribute.String("outbox.outcome", outcomePublished))
		return
	case r.Outcome == publish.NotSent && w.phase == ending && errors.Is(r.Err, context.Canceled):
		return // it was not begun, because Run or the session ends
	case it.verdict.failure.Final:
		outcome = outcomeFailed
	case it.verdict.released:
		outcome = outcomeUnknown
	}
	w.counters.count(func(s *Counters) {
		switch r.Outcome {
		case publish.Returned:
			s.Unroutable++
		case publish.Refused:
			s.Refused++
		case publish.Unknown:
			s.PublishErrors++
		default: // counted when it is settled
		}
	})
	w.log.Trouble(ctx, "message not published", "message_id", it.message.ID, "topic", it.message.Topic, "error", r.Err)
	span.SetAttributes(attribute.String("outbox.outcome", outcome))
	if r.Err != nil {
		span.RecordError(r.Err)
	}
	span.SetStatus(codes.Error, failureCode(r))
}
