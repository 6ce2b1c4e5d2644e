package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheClockOfThisGoCanBeMoved tells whoever changes the toolchain that the edit must
// move along.
func TestTheClockOfThisGoCanBeMoved(t *testing.T) {
	t.Parallel()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	moved, err := moveClock(string(source))
	if err != nil || !strings.Contains(moved, "sec += ahead") {
		t.Error(err)
	}
	if _, err := moveClock("package time\n"); err == nil {
		t.Error("it has moved a clock that is not there")
	}
}

func TestShortIsAChoiceOfScenarios(t *testing.T) {
	t.Parallel()
	all, few := options{}.chosen(), options{Short: true}.chosen()
	if len(all) != len(scenarios) || len(few) == 0 || len(few) > len(all)/4 {
		t.Errorf("%d of %d", len(few), len(all))
	}
}
