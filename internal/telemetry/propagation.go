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
