// Package telemetry sets up a service's logs with trace ids, its traces, and its metrics.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Setup installs the logger and the tracer of a service as the process's defaults. It exports
// traces if OTEL_EXPORTER_OTLP_ENDPOINT (or its variant for traces) names a collector. Without a
// collector, spans record nothing, whatever OTEL_TRACES_SAMPLER says. Trace ids are still made,
// logged and passed on, as not sampled. The returned function sends the remaining spans. It must
// be called last.
//
// The standard variables apply: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER
// and those of the exporter.
func Setup(ctx context.Context, service string, level slog.Level) (flush func(), err error) {
	LogTo(os.Stdout, service, level)
	res, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(service)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	if exporting() {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
		}
		options = append(options, sdktrace.WithBatcher(exporter))
	} else {
		// A span that nobody reads must cost nothing. A span that is not sampled still has ids.
		options = append(options, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	provider := sdktrace.NewTracerProvider(options...)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		slog.Warn("telemetry trouble", "error", err)
	}))
	return func() { shutdown(provider) }, nil //nolint:contextcheck // it is called after ctx has ended
}

// LogTo sends the process's log to w. Setup sends it to stdout. A command that needs stdout for its
// output sends it to stderr.
func LogTo(w io.Writer, service string, level slog.Level) {
	slog.SetDefault(slog.New(withTrace{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})}).
		With("service", service))
}

func exporting() bool {
	if os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// shutdown makes a new context, because the service's context has ended.
func shutdown(provider *sdktrace.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		slog.Warn("the last traces were not sent", "error", err)
	}
}
