package telemetry

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Observe adds a value to a histogram. If the trace of ctx is sampled, Observe adds it as the
// value's exemplar: the point on a dashboard that opens the trace.
func Observe(ctx context.Context, histogram prometheus.Observer, value float64) {
	span := trace.SpanContextFromContext(ctx)
	if exemplary, ok := histogram.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		exemplary.ObserveWithExemplar(value, prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	histogram.Observe(value)
}
