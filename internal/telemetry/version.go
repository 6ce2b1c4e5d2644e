package telemetry

import (
	"cmp"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Set by the linker where there is no repository to read them from: in an image.
var version, revision string

// Version tells which program this is: its version, and the commit that it was built
// from. What is not known is "unknown".
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

// buildInfo is a metric whose labels are what it tells.
func buildInfo() prometheus.Collector {
	version, revision := Version()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "build_info", Help: "Always 1: which version of the program this is, and from which commit.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision},
	})
	info.Set(1)
	return info
}
