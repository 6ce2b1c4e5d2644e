package telemetry

import (
	"cmp"
	"context"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
)

// NewRegistry returns a registry with the metrics of the process and the Go runtime.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		buildInfo(),
	)
	return registry
}

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

// The linker sets them when an image is built: there is no repository to read them from.
var version, revision string

// Version returns the program's version, and the commit that it was built from. Each is "unknown"
// if it is not known.
func Version() (number, commit string) {
	built, _ := debug.ReadBuildInfo()
	return versionOf(built)
}

func versionOf(built *debug.BuildInfo) (string, string) {
	foundVersion, foundRevision := version, revision
	if built != nil {
		foundVersion = cmp.Or(foundVersion, built.Main.Version)
		for _, setting := range built.Settings {
			if setting.Key == "vcs.revision" {
				foundRevision = cmp.Or(foundRevision, setting.Value)
			}
		}
	}
	return cmp.Or(foundVersion, "unknown"), cmp.Or(foundRevision, "unknown")
}

// buildInfo is a metric that has the version and the commit as labels.
func buildInfo() prometheus.Collector {
	version, revision := Version()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "build_info", Help: "Always 1. The labels are the version and the commit of the program.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision},
	})
	info.Set(1)
	return info
}
