package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	api "go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

const (
	orderParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	orderTrace  = "0af7651916cd43dd8448eb211c80319c"
)

// spans is a tracer that keeps its spans.
type spans struct {
	provider //nolint:unused // makes it a TracerProvider
	tracer   //nolint:unused // and a Tracer
	started  []*span
}

type (
	provider = api.TracerProvider //nolint:unused // see above
	tracer   = api.Tracer         //nolint:unused // see above
)

type span struct {
	noop.Span
	context, parent trace.SpanContext
	name            string
	kind            trace.SpanKind
	attributes      map[attribute.Key]string
	status          codes.Code
	ended           bool
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return s }

func (s *spans) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanContextFromContext(ctx)
	c := trace.SpanContextConfig{TraceID: parent.TraceID(), TraceFlags: trace.FlagsSampled}
	if !parent.IsValid() {
		_, _ = rand.Read(c.TraceID[:])
	}
	_, _ = rand.Read(c.SpanID[:])
	config := trace.NewSpanStartConfig(options...)
	started := &span{
		context: trace.NewSpanContext(c), parent: parent, name: name, attributes: map[attribute.Key]string{},
		kind: config.SpanKind(),
	}
	s.started = append(s.started, started)
	return trace.ContextWithSpan(ctx, started), started
}

func (s *span) SpanContext() trace.SpanContext      { return s.context }
func (s *span) IsRecording() bool                   { return true }
func (s *span) SetStatus(code codes.Code, _ string) { s.status = code }
func (s *span) End(...trace.SpanEndOption)          { s.ended = true }
func (s *span) SetAttributes(all ...attribute.KeyValue) {
	for _, a := range all {
		s.attributes[a.Key] = a.Value.String()
	}
}

// publishBatch publishes a batch of three events: one has a trace, one has none, and one has
// an invalid traceparent.
func publishBatch(t *testing.T, results ...publish.Result) (*reporter, *batch, []*span) {
	t.Helper()
	tracer, config := &spans{}, testConfig
	config.TracerProvider = tracer
	config = config.withDefaults()
	r := newReporter(&config, &fakeBroker{})
	pace := newPace(&config)
	b := &batch{config: &config, topics: newTopics(), report: r, began: time.Now(), sender: &sender{ctx: t.Context(), pace: pace}, window: newWindow(&atomic.Int64{}, pace)}
	for _, e := range []store.Event{
		{ID: uuid.New(), Topic: "order.created", Traceparent: orderParent, Headers: map[string]string{"tracestate": "a=b"}, Payload: []byte("{}"), RetryCount: 1, Age: 1},
		{ID: uuid.New(), Topic: "order.created"},
		{ID: uuid.New(), Topic: "order.created", Traceparent: "garbage", Age: 100},
	} {
		m, trace := r.message(t.Context(), e)
		b.add(item{event: e, message: m, trace: trace})
	}
	for i, result := range results {
		b.accept(b.items[i], outcomeOf(result), result.Err)
	}
	return r, b, tracer.started
}

var (
	refusal  = publish.Result{Outcome: publish.Refused, Err: errors.New("the reason")}
	tooLarge = publish.Result{Outcome: publish.Invalid, Err: publish.ErrTooLarge}
	unknown  = publish.Result{Outcome: publish.Unknown, Err: errors.New("the reason")}
)

func TestEachMessageContinuesTheTraceOfItsEvent(t *testing.T) {
	t.Parallel()
	_, b, started := publishBatch(t, taken, taken, taken)
	seen := map[trace.TraceID]bool{}
	for i, it := range b.items {
		m := it.message
		span := started[i]
		id := span.context.TraceID()
		carried, _ := m.Headers["traceparent"].(string)
		if !strings.Contains(carried, span.context.SpanID().String()) || !strings.Contains(carried, id.String()) {
			t.Errorf("message %d carries %q, its span is %s", i, carried, span.context.SpanID())
		}
		if isOrder := id.String() == orderTrace; seen[id] || isOrder != (i == 0) || span.parent.IsValid() != (i == 0) || (span.parent.TraceState().String() == "a=b") != (i == 0) {
			t.Errorf("message %d is in trace %s below %s", i, id, span.parent.SpanID())
		}
		if span.kind != trace.SpanKindProducer || span.name != "publish events" || !span.ended {
			t.Errorf("%s span %q, ended: %t", span.kind, span.name, span.ended)
		}
		if got := span.attributes["messaging.message.id"]; got != m.ID {
			t.Errorf("the span of message %s has the id %s", m.ID, got)
		}
		seen[id] = true
	}
}

func TestTheSpanHasTheOutcomeOfTheEvent(t *testing.T) {
	t.Parallel()
	_, _, started := publishBatch(t, refusal, tooLarge, unknown)
	for i, want := range []string{"retry", "failed", "unknown"} {
		if got := started[i].attributes["outbox.outcome"]; got != want || started[i].status != codes.Error {
			t.Errorf("event %d: outcome %q and status %v, want %q and an error", i, got, started[i].status, want)
		}
	}
}

// TestWithoutATracerTheEventKeepsItsOwnTrace: the message carries what Append has stored.
func TestWithoutATracerTheEventKeepsItsOwnTrace(t *testing.T) {
	t.Parallel()
	config := testConfig.withDefaults()
	r := newReporter(&config, &fakeBroker{})
	m, _ := r.message(t.Context(), store.Event{Traceparent: orderParent, Headers: map[string]string{"a": "b", "tracestate": "c=d"}})
	if got := m.Headers; got["traceparent"] != orderParent || got["a"] != "b" || got["tracestate"] != "c=d" {
		t.Errorf("headers %v", got)
	}
}

func TestTheLatencyHasExemplars(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := publishBatch(t, taken, unknown, taken)
		s := r.copy()
		if s.Published != 2 || s.PublishErrors != 1 {
			t.Errorf("%d published and %d errors, want 2 and 1", s.Published, s.PublishErrors)
		}
		if e := s.Latency.Exemplars; len(e) != 2 || e[0].TraceID != orderTrace || e[0].Value != 1 {
			t.Errorf("exemplars %v, want one of the first event's trace", e)
		}
		if n := len(s.Latency.Bounds); s.Latency.Counts[n] != 1 || s.Latency.Sum != 101 {
			t.Errorf("%d of the last bucket and a sum of %v", s.Latency.Counts[n], s.Latency.Sum)
		}
	})
}
