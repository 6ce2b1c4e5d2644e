package httpapi_test

import (
	"net/http"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const (
	callersSpan  = "b7ad6b7169203331"
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
)

// requests returns the spans of the requests of one caller's trace, by name, and how
// many spans the database has below each.
func requests(spans *tracetest.SpanRecorder) (found map[string]sdktrace.ReadOnlySpan, statements map[trace.SpanID]int) {
	found, statements = map[string]sdktrace.ReadOnlySpan{}, map[trace.SpanID]int{}
	for _, s := range spans.Ended() {
		switch {
		case s.SpanContext().TraceID().String() != callersTrace:
		case s.SpanKind() == trace.SpanKindServer:
			found[s.Name()] = s
		case s.SpanKind() == trace.SpanKindClient:
			statements[s.Parent().SpanID()]++
		}
	}
	return found, statements
}

func TestARequestIsASpanNamedForItsRouteWithTheDatabaseBelow(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	otel.GetTracerProvider().(*sdktrace.TracerProvider).RegisterSpanProcessor(spans)
	b := newFixture(t)
	traced := []string{"Content-Type", "application/json", "traceparent", "00-" + callersTrace + "-" + callersSpan + "-01"}
	b.send(http.MethodPost, "/orders", oneMug, traced...)
	b.send(http.MethodGet, "/orders/0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b", "", traced...)
	b.send(http.MethodGet, "/nothing", "", traced...)

	found, statements := requests(spans)
	for name, reads := range map[string]bool{"POST /orders": true, "GET /orders/{id}": true, "GET": false} {
		span, is := found[name]
		if !is {
			t.Errorf("no span %q among %v", name, found)
			continue
		}
		if span.Parent().SpanID().String() != callersSpan {
			t.Errorf("%s: the parent is %s", name, span.Parent().SpanID())
		}
		if got := statements[span.SpanContext().SpanID()] > 0; got != reads {
			t.Errorf("%s: statements below it: %t, want %t", name, got, reads)
		}
	}
}
