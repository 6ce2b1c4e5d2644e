package relay

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/quietlog"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// reporter counts, logs and traces what becomes of events.
type reporter struct {
	config              *Config
	system, destination string // of the semantic conventions
	tracer              trace.Tracer
	log                 *quietlog.Log
	*counters
}

func newReporter(c *Config, to publish.Destination) *reporter {
	return &reporter{
		config: c, system: to.System(), destination: to.Name(), log: quietlog.New(c.Logger), counters: newCounters(),
		tracer: c.TracerProvider.Tracer("example.com/transactional-outbox/outbox"),
	}
}

// message makes the message of an event, and starts its span. The span starts from the worker's
// ctx, so that the trace of one event does not continue in the next.
func (r *reporter) message(ctx context.Context, e store.Event) (publish.Message, context.Context) {
	parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
		store.TraceHeader: e.Traceparent, store.StateHeader: e.Headers[store.StateHeader],
	})
	ctx, span := r.tracer.Start(parent, "publish "+r.destination, trace.WithSpanKind(trace.SpanKindProducer))
	if span.IsRecording() {
		span.SetAttributes(r.attributes(e)...)
	}
	m := e.Message(r.config.AppID)
	for name, own := range store.TraceOf(ctx) {
		m.Headers[name] = own
	}
	return m, ctx
}

// attributes are those of OpenTelemetry's conventions for messaging, and event.retry_count.
// https://opentelemetry.io/docs/specs/semconv/messaging/
func (r *reporter) attributes(e store.Event) []attribute.KeyValue {
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

// spanOutcomes are the values of the span attribute outbox.outcome. A retry comes later; unknown
// means that nobody knows whether the destination has the event.
var spanOutcomes = [...]string{published: "published", delayed: "retry", halted: "retry", retried: "unknown", failed: "failed"}

// outcome counts the answer to an event, logs it, and ends the event's span. isOver says that
// nothing more is begun.
func (r *reporter) outcome(it *item, o outcome, err error, isOver bool) {
	ctx, span := it.trace, trace.SpanFromContext(it.trace)
	defer span.End()
	if o == notSent && isOver && errors.Is(err, context.Canceled) {
		return // it was not begun, because Run or the session ends
	}
	became := spanOutcomes[it.decision.event]
	span.SetAttributes(attribute.String("outbox.outcome", became))
	if it.decision.event == published {
		traceID := ""
		if own := span.SpanContext(); own.IsSampled() {
			traceID = own.TraceID().String()
		}
		r.count(func(s *Counters) {
			s.Published++
			s.Latency.observe(it.event.Age+time.Since(it.batch.began).Seconds(), traceID)
		})
		r.log.Step(ctx, "message published", "message_id", it.message.ID, "topic", it.message.Topic)
		return
	}
	r.count(func(s *Counters) {
		switch o { //nolint:exhaustive // the others are counted when they are settled, or not at all
		case returned:
			s.Unroutable++
		case refused, closedAlone:
			s.Refused++
		case lost, lostAlone, noAnswer:
			s.PublishErrors++
		}
	})
	r.log.Trouble(ctx, "message not published", "message_id", it.message.ID, "topic", it.message.Topic, "error", err)
	if err != nil {
		span.RecordError(err)
	}
	span.SetStatus(codes.Error, cmp.Or(it.decision.failure.Code, became))
}

// settled counts and logs what a settlement has changed, and what it has not.
func (r *reporter) settled(b *batch, s store.Settlement, done *store.Settled) {
	ctx := b.database.by.statements
	if missing := max(0, len(s.Failures)-done.Held); missing > 0 {
		r.count(func(all *Counters) { all.LeaseLost += uint64(missing) }) //nolint:gosec // positive
		r.log.Trouble(ctx, "lease lost: this relay no longer holds these events", "events", missing)
	}
	for _, it := range b.items {
		if _, ok := done.Failed[it.event.ID]; !ok {
			continue
		}
		failure := it.decision.failure
		r.count(func(all *Counters) {
			all.Failed++
			if failure.Counts {
				all.RetryExhaustions++
			}
		})
		r.log.ErrorContext(ctx, "event failed", "message_id", failure.ID, "failure_code", failure.Code, "error", failure.Reason)
		if r.config.OnFailed != nil {
			r.config.OnFailed(ctx, it.event, failure.Reason)
		}
	}
}
