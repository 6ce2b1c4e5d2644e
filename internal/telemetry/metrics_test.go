package telemetry

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTheVersionComesFromTheBuildInfo(t *testing.T) {
	t.Parallel()
	built := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}
	if number, commit := versionOf(built); number != "v1.2.3" || commit != "abc" {
		t.Errorf("%s, %s", number, commit)
	}
	if number, commit := versionOf(nil); number != "unknown" || commit != "unknown" {
		t.Errorf("%s, %s", number, commit)
	}
}

// TestARegistryHasTheVersion, and the metrics of the process.
func TestARegistryHasTheVersion(t *testing.T) {
	t.Parallel()
	number, commit := Version()
	want := `
# HELP build_info Always 1. The labels are the version and the commit of the program.
# TYPE build_info gauge
build_info{revision="` + commit + `",version="` + number + `"} 1
`
	registry := NewRegistry()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "build_info"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "go_build_info"} {
		if n, err := testutil.GatherAndCount(registry, name); n != 1 || err != nil {
			t.Errorf("%d series %s, error %v", n, name, err)
		}
	}
}
