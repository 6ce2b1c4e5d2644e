package outbox

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// newBatch makes the messages of a claim and starts a span for each. Each span starts from the
// worker's ctx, so that the trace of one event does not continue in the next.
func (w *worker) newBatch(ctx context.Context, claim store.Claim) *batch {
	b := &batch{token: claim.Token, read: time.Now(), lease: newLease(w.claimed, w.config.Lease)}
	tracer, name := w.config.TracerProvider.Tracer("example.com/transactional-outbox/outbox"), "publish "+w.destination
	for _, e := range claim.Events {
		parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{store.TraceHeader: e.Traceparent})
		ctx, span := tracer.Start(parent, name, trace.WithSpanKind(trace.SpanKindProducer))
		if span.IsRecording() {
			span.SetAttributes(w.attributes(e)...)
		}
		m := e.Message(w.config.AppID)
		if own := traceparent(ctx); own != "" {
			m.Headers[store.TraceHeader] = own
		}
		b.add(item{event: e, message: m, trace: ctx})
	}
	for _, id := range claim.NoPayload {
		lost := store.Failure{
			ID: id, Final: true, Code: codeNoPayload, Reason: "the event is in outbox_queue, and its payload is not in outbox_events",
		}
		b.add(item{event: store.Event{ID: id}, state: answered, verdict: verdict{failure: lost}})
	}
	return b
}

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
	outcomeUnknown   = "unknown" // it may have arrived, and is tried again at once
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
		w.counters.count(func(s *Stats) {
			s.Published++
			s.Latency.observe(it.event.Age+time.Since(it.batch.read).Seconds(), traceID)
		})
		w.log.step(ctx, "message published", "message_id", it.message.ID, "topic", it.message.Topic)
		span.SetAttributes(attribute.String("outbox.outcome", outcomePublished))
		return
	case r.Outcome == publish.NotSent && !w.ending.IsZero():
		return // it was not begun, because Run ends
	case it.verdict.failure.Final:
		outcome = outcomeFailed
	case it.verdict.unknown:
		outcome = outcomeUnknown
	}
	w.counters.count(func(s *Stats) {
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
	w.log.trouble(ctx, "message not published", "message_id", it.message.ID, "topic", it.message.Topic, "error", r.Err)
	span.SetAttributes(attribute.String("outbox.outcome", outcome))
	if r.Err != nil {
		span.RecordError(r.Err)
	}
	span.SetStatus(codes.Error, failureCode(r))
}
