package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheClockOfThisGoVersionCanBeMoved fails when a new Go version requires another edit.
func TestTheClockOfThisGoVersionCanBeMoved(t *testing.T) {
	t.Parallel()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	moved, err := patchTimeNow(string(source))
	if err != nil || !strings.Contains(moved, "sec += ahead") {
		t.Error(err)
	}
	if _, err := patchTimeNow("package time\n"); err == nil {
		t.Error("it edited a time.go without the line")
	}
}

func TestShortRunsSomeScenarios(t *testing.T) {
	t.Parallel()
	all, few := options{}.chosen(), options{Short: true}.chosen()
	if len(all) != len(scenarios) || len(few) == 0 || len(few) > len(all)/4 {
		t.Errorf("%d of %d", len(few), len(all))
	}
}
