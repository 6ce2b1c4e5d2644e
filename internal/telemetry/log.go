package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// withTrace adds the trace and span ids of a record's context to it.
type withTrace struct{ slog.Handler }

// Handle adds the ids.
func (h withTrace) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(
			slog.String("trace_id", span.TraceID().String()),
			slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs keeps the wrapping.
func (h withTrace) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withTrace{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the wrapping.
func (h withTrace) WithGroup(name string) slog.Handler {
	return withTrace{h.Handler.WithGroup(name)}
}
