package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEachExperimentHasItsScriptAndItsHelp(t *testing.T) {
	for _, e := range experiments {
		script, err := os.ReadFile(filepath.Join("../../scripts/break", e.name))
		must(t, err)
		if !strings.Contains(string(script), "experiment "+e.name+" \"$@\"") {
			t.Errorf("scripts/break/%s does not run it", e.name)
		}
		var help bytes.Buffer
		must(t, run(t.Context(), []string{e.name, "-h"}, &help))
		for _, part := range []string{e.breaks, e.promise, e.description} {
			if part == "" || !strings.Contains(help.String(), part) {
				t.Errorf("the help of %s lacks %q", e.name, part)
			}
		}
		if e.result == "" {
			t.Errorf("%s has no result", e.name)
		}
	}
	scripts, err := os.ReadDir("../../scripts/break")
	must(t, err)
	if len(scripts) != len(experiments) {
		t.Errorf("%d scripts for %d experiments", len(scripts), len(experiments))
	}
}

func TestWrongCallsBreakNothing(t *testing.T) {
	for name, args := range map[string][]string{
		"no experiment":        {"--mode", "processes"},
		"an unknown one":       {"--mode", "processes", "sideways"},
		"a surplus argument":   {"--mode", "processes", "poison", "everybody"},
		"a flag of none":       {"--now", "poison"},
		"a mode without value": {"--mode"},
	} {
		if err := run(t.Context(), args, io.Discard); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := run(t.Context(), []string{"--mode", "", "poison"}, io.Discard); err == nil || !strings.Contains(err.Error(), "make demo") {
		t.Errorf("with nothing running: %v", err)
	}
}

func TestTheVerdictNamesWhatIsBroken(t *testing.T) {
	r := report{out: t.Output()}
	r.requireEqual("e-mails", 1, 1)
	r.requireAtLeast("duplicates", 3, 2)
	r.requireTrue("unchanged", true)
	must(t, r.verdict())
	r.requireEqual("e-mails", 2, 1)
	r.requireAtLeast("duplicates", 1, 2)
	r.requireTrue("unchanged", false)
	err := r.verdict()
	for _, finding := range []string{"e-mails: 2, want 1", "duplicates: 1, want 2", "unchanged: no"} {
		if err == nil || !strings.Contains(err.Error(), finding) {
			t.Errorf("%v does not say %q", err, finding)
		}
	}
}
