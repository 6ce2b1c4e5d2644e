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

func TestTheVersionIsAMetric(t *testing.T) {
	t.Parallel()
	number, commit := Version()
	want := `
# HELP build_info Always 1. The labels are the version and the commit of the program.
# TYPE build_info gauge
build_info{revision="` + commit + `",version="` + number + `"} 1
`
	if err := testutil.GatherAndCompare(NewRegistry(), strings.NewReader(want), "build_info"); err != nil {
		t.Error(err)
	}
}
