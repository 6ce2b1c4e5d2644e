package relay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// spans has the spans of all tests of this package, because a process has one tracer.
var spans = tracetest.NewSpanRecorder()

func init() {
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
}

const (
	orderParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	orderTrace  = "0af7651916cd43dd8448eb211c80319c"
)

// publishBatch publishes a batch of three events: one has a trace, one has none, and one has
// an invalid traceparent.
func publishBatch(t *testing.T, results ...publish.Result) (batch, map[string]sdktrace.ReadOnlySpan) {
	t.Helper()
	w := &worker{Relay: newRelay(nil)}
	events := []outbox.Claimed{
		{ID: uuid.New(), EventKey: "order.created", Traceparent: orderParent, Payload: "{}", RetryCount: 1},
		{ID: uuid.New(), EventKey: "order.created"},
		{ID: uuid.New(), EventKey: "order.created", Traceparent: "garbage"},
	}
	b := w.newBatch(t.Context(), events)
	refusals := map[uuid.UUID]verdict{events[1].ID: {counts: true}}
	b.endSpans(results, testConfig.decide(events, results, refusals).outcomes)
	found := map[string]sdktrace.ReadOnlySpan{}
	for _, s := range spans.Ended() {
		for _, a := range s.Attributes() {
			if a.Key == "messaging.message.id" {
				found[a.Value.AsString()] = s
			}
		}
	}
	return b, found
}

var (
	confirmed = publish.Result{Outcome: publish.Confirmed}
	refused   = publish.Result{Outcome: publish.Refused, Err: errors.New("the reason")}
	tooLarge  = publish.Result{Outcome: publish.Invalid, Err: publish.ErrTooLarge}
	unknown   = publish.Result{Outcome: publish.Unknown, Err: errors.New("the reason")}
)

func TestEachMessageContinuesTheTraceOfItsOrder(t *testing.T) {
	t.Parallel()
	b, found := publishBatch(t, confirmed, confirmed, confirmed)
	seen := map[trace.TraceID]bool{}
	for i, m := range b.messages {
		span := found[m.ID]
		id := span.SpanContext().TraceID()
		carried, _ := m.Headers["traceparent"].(string)
		if !strings.Contains(carried, span.SpanContext().SpanID().String()) || !strings.Contains(carried, id.String()) {
			t.Errorf("message %d carries %q, its span is %s", i, carried, span.SpanContext().SpanID())
		}
		if isOrder := id.String() == orderTrace; seen[id] || isOrder != (i == 0) || span.Parent().IsValid() != (i == 0) {
			t.Errorf("message %d is in trace %s below %s", i, id, span.Parent().SpanID())
		}
		if span.SpanKind() != trace.SpanKindProducer || span.Name() != "publish events" {
			t.Errorf("%s span %q", span.SpanKind(), span.Name())
		}
		seen[id] = true
	}
}

func TestTheSpanHasTheOutcomeOfTheEvent(t *testing.T) {
	t.Parallel()
	b, found := publishBatch(t, refused, tooLarge, unknown)
	for i, want := range []string{"retry", "dlq", "failed"} {
		span, got := found[b.messages[i].ID], ""
		for _, a := range span.Attributes() {
			if a.Key == "outbox.outcome" {
				got = a.Value.AsString()
			}
		}
		if got != want || span.Status().Code != codes.Error {
			t.Errorf("event %d: outcome %q and status %v, want %q and an error", i, got, span.Status(), want)
		}
	}
}

func TestABatchHasOneExemplar(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	b, _ := publishBatch(t, confirmed, unknown, confirmed)
	metrics.countBatch(b, []publish.Result{confirmed, unknown, confirmed}, 30*time.Millisecond)
	if n := testutil.ToFloat64(metrics.published); n != 2 {
		t.Errorf("%v published, want 2", n)
	}
	if n := testutil.ToFloat64(metrics.publishErrors); n != 1 {
		t.Errorf("%v publish errors, want 1", n)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exemplars := 0
	for _, family := range families {
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			if e := bucket.GetExemplar(); e != nil && e.GetLabel()[0].GetValue() == orderTrace {
				exemplars++
			}
		}
	}
	if exemplars != 1 {
		t.Errorf("%d exemplars of the first event's trace, want 1", exemplars)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
