package consumer

import (
	"errors"
	"testing"
	"unicode/utf8"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// spans are those of all tests of this package: the tracer is the process's.
var spans = tracetest.NewSpanRecorder()

func (b *fixture) spanOf(m rabbitmq.Message) (found sdktrace.ReadOnlySpan) {
	b.Helper()
	for _, s := range spans.Ended() {
		if s.SpanKind() == trace.SpanKindConsumer && attributes(s)["messaging.message.id"] == m.ID {
			found = s // the last one
		}
	}
	if found == nil {
		b.Fatalf("no span for message %s", m.ID)
	}
	return found
}

func attributes(s sdktrace.ReadOnlySpan) map[string]any {
	found := map[string]any{}
	for _, a := range s.Attributes() {
		found[string(a.Key)] = a.Value.AsInterface()
	}
	return found
}

const (
	ofAnOrder   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tracedOrder = "0af7651916cd43dd8448eb211c80319c"
)

func TestASpanContinuesTheTraceOfItsMessage(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.begin()
	m := newMessage()
	m.Headers["traceparent"] = ofAnOrder
	b.want(m, "parse", "record", "send", "ack")
	span := b.spanOf(m)
	if span.SpanContext().TraceID().String() != tracedOrder || span.Parent().SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("trace %s below %s", span.SpanContext().TraceID(), span.Parent().SpanID())
	}
	want := map[string]any{
		"messaging.system": "rabbitmq", "messaging.operation.type": "process", "messaging.operation.name": "process",
		"messaging.destination.name": "the-queue", "messaging.rabbitmq.destination.routing_key": "order.created",
		"messaging.message.body.size": int64(2), "rabbitmq.retry_count": int64(0), "consumer.outcome": "success",
	}
	for name, value := range want {
		if got := attributes(span)[name]; got != value {
			t.Errorf("%s is %v, want %v", name, got, value)
		}
	}
	if span.Name() != "process the-queue" {
		t.Errorf("name %q", span.Name())
	}
}

// TestNoTraceLeaksIntoTheNextMessage handles them in one batch.
func TestNoTraceLeaksIntoTheNextMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		first, second, third := newMessage(), newMessage(), newMessage()
		first.Headers["traceparent"] = ofAnOrder
		second.Headers["traceparent"] = "garbage"
		delete(third.Headers, "traceparent")
		for _, m := range []rabbitmq.Message{first, second, third} {
			b.consumer.start(b.Context(), b.delivery(m))
		}
		b.consumer.running.Wait()
		traces := map[trace.TraceID]bool{b.spanOf(first).SpanContext().TraceID(): true}
		for _, m := range []rabbitmq.Message{second, third} {
			span := b.spanOf(m)
			if id := span.SpanContext().TraceID(); traces[id] || !id.IsValid() || span.Parent().IsValid() {
				b.Errorf("trace %s below %s, want one of its own", id, span.Parent().SpanID())
			}
			traces[span.SpanContext().TraceID()] = true
		}
	})
}

func TestTheSpanHasTheOutcome(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		for want, test := range map[string]struct {
			send    func() error
			retries int64
		}{
			"success": {always(nil), 0},
			"retry":   {always(errFailed), 1},
			"dlq":     {always(permanent{errFailed}), 0},
		} {
			b.effect.sends(test.send)
			m := newMessage()
			m.Headers[RetryCountHeader] = test.retries
			b.deliver(b.Context(), b.delivery(m))
			got := attributes(b.spanOf(m))
			if got["consumer.outcome"] != want || got["rabbitmq.retry_count"] != test.retries {
				b.Errorf("attributes %v, want the outcome %s after %d retries", got, want, test.retries)
			}
		}
	})
}

// TestASpanHasOnlyUTF8: other bytes would lose all spans of the exporter's batch.
func TestASpanHasOnlyUTF8(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	_, span := provider.Tracer("").Start(t.Context(), "process")
	recordOutcome(span, "", errors.New("at \xff"))
	span.End()
	inBubble(t, func(b *fixture) {
		m := newMessage()
		m.RoutingKey = "order.\xff"
		b.deliver(b.Context(), b.delivery(m))
		for name, value := range attributes(b.spanOf(m)) {
			if text, ok := value.(string); ok && !utf8.ValidString(text) {
				b.Errorf("%s is %q", name, text)
			}
		}
	})
	failed := recorder.Ended()[0]
	if text := failed.Status().Description; !utf8.ValidString(text) {
		t.Errorf("the status is %q", text)
	}
	for _, a := range failed.Events()[0].Attributes {
		if !utf8.ValidString(a.Value.AsString()) {
			t.Errorf("%s is %q", a.Key, a.Value.AsString())
		}
	}
}
