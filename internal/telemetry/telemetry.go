// Package telemetry sets up a service's logs with trace ids, its traces, and its metrics.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Setup installs the logger and the tracer of a service as the process's defaults. It exports
// traces if OTEL_EXPORTER_OTLP_ENDPOINT (or its variant for traces) names a collector. Without a
// collector, and if OTEL_SDK_DISABLED is true or OTEL_TRACES_EXPORTER is none, spans record nothing,
// whatever OTEL_TRACES_SAMPLER says. Trace ids are still made, logged and passed on, as not
// sampled. The returned function sends the remaining spans. It must be called last.
//
// The standard variables apply: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER
// and those of the exporter, which speaks HTTP and not gRPC. A value that is wrong or not supported
// never stops the service. Most are a warning in the log; for some limits the SDK takes its
// default, and says nothing.
func Setup(ctx context.Context, log io.Writer, service string, level slog.Level) (flush func()) {
	LogTo(log, service, level)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		slog.Warn("telemetry trouble", "error", err)
	}))
	otel.SetLogger(funcr.New(func(_, err string) { // the SDK reports some wrong values here, by default not as JSON
		slog.Warn("telemetry trouble", "error", err)
	}, funcr.Options{}))
	res, _ := resource.New(ctx, // what is right in the variables; the provider warns of the rest
		resource.WithAttributes(semconv.ServiceName(service)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res), export(ctx))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return func() { shutdown(provider) } //nolint:contextcheck // it is called after ctx has ended
}

// export is where the spans go.
func export(ctx context.Context) sdktrace.TracerProviderOption {
	// A span that nobody reads must cost nothing. A span that is not sampled still has ids.
	nowhere := sdktrace.WithSampler(sdktrace.NeverSample())
	if !exporting() {
		return nowhere
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		otel.Handle(fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: no traces are sent: %w", err))
		return nowhere
	}
	dropWrongSizes()
	return sdktrace.WithBatcher(exporter)
}

// dropWrongSizes unsets variables whose values would make WithBatcher panic, take all memory, or
// never pause. Without them it takes its defaults.
func dropWrongSizes() {
	const most = 1 << 20
	for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY"} {
		value := os.Getenv(name)
		if n, err := strconv.Atoi(value); value != "" && (err != nil || n < 1 || n > most) {
			otel.Handle(fmt.Errorf("%s must be a number from 1 to %d, and %q is not: its default is used", name, most, value))
			_ = os.Unsetenv(name)
		}
	}
}

// LogTo sends the process's log to w.
func LogTo(w io.Writer, service string, level slog.Level) {
	slog.SetDefault(slog.New(withTrace{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})}).
		With("service", service))
}

// exporting reports whether spans go to a collector. It warns of values that the SDK and the
// exporter ignore and do not mention in the log.
func exporting() bool {
	warnUnless("tracecontext", "only tracecontext is used", "OTEL_PROPAGATORS")
	warnUnless("true false", "false is used", "OTEL_SDK_DISABLED")
	if valueOf("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	warnUnless("prometheus none", "metrics are only at /metrics, for Prometheus", "OTEL_METRICS_EXPORTER")
	warnUnless("console none", "the log is only written as lines of JSON", "OTEL_LOGS_EXPORTER")
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		warnUnless("none", "OTEL_EXPORTER_OTLP_ENDPOINT is not set, so no traces are sent", "OTEL_TRACES_EXPORTER")
		return false
	}
	warnUnless("otlp none", "otlp is used", "OTEL_TRACES_EXPORTER")
	if valueOf("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	warnUnless("http/protobuf http/json", "http/protobuf is used, so the endpoint must be the collector's HTTP port, usually 4318",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	warnUnless("gzip none", "none is used", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION")
	return true
}

// warnUnless warns if the first of the variables that is set has none of the values, which have
// spaces between them.
func warnUnless(values, used string, variables ...string) {
	for _, name := range variables {
		value := valueOf(name)
		if value == "" {
			continue // like a variable that is not set
		}
		if !slices.Contains(strings.Fields(values), value) {
			otel.Handle(fmt.Errorf("%s=%q has no effect: %s", name, os.Getenv(name), used))
		}
		return
	}
}

// valueOf returns the value of a variable, in lower case, unless the exporter reads it: that
// distinguishes upper and lower case.
func valueOf(variable string) string {
	value := strings.TrimSpace(os.Getenv(variable))
	if strings.HasPrefix(variable, "OTEL_EXPORTER_") {
		return value
	}
	return strings.ToLower(value)
}

// shutdown makes a new context, because the service's context has ended.
func shutdown(provider *sdktrace.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		slog.Warn("the last traces were not sent", "error", err)
	}
}

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

// Traceparent returns the W3C trace context of ctx, or "" outside a trace.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
