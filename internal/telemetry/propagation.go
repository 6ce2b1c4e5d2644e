package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// Traceparent returns the W3C trace context of ctx, or "" outside a trace.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// WithTraceparent returns a context that continues the trace of traceparent. If traceparent is
// empty or malformed, it returns ctx.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
