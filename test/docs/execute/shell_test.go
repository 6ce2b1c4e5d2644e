package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// longRunning runs until SIGTERM. It creates the file "begun" at its start and "ended" at its end.
const longRunning = `sh -c 'trap "touch ended; exit" TERM; touch begun; while :; do sleep 0.01; done'`

func TestACommandHasATimeLimit(t *testing.T) {
	shown, err := try(t, console("$ echo so far; "+longRunning), "-timeout", "500ms")
	if err == nil || !strings.Contains(err.Error(), "page.md:2: not finished in 500ms") || !strings.Contains(shown, "so far") {
		t.Errorf("error %v, shown:\n%s", err, shown)
	}
	requireEnded(t)
}

func TestAnInterruptEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tryUntil(t, ctx, console("$ sleep 1000")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestBackgroundProcessesEndWithThePage: only processes in their own session go on.
func TestBackgroundProcessesEndWithThePage(t *testing.T) {
	shown, err := try(t, console("$ "+longRunning+" &", "$ until [ -e begun ]; do sleep 0.01; done"))
	if err != nil {
		t.Errorf("%v:\n%s", err, shown)
	}
	requireEnded(t)
}

// requireEnded requires that longRunning has ended if it has begun.
func requireEnded(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("begun"); err != nil {
		return
	}
	if _, err := os.Stat("ended"); err != nil {
		t.Errorf("it is still running: %v", err)
	}
}
