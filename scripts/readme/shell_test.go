package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// lasting never ends by itself, has begun when the file "begun" is there, and leaves the
// file "ended" when it is asked to end.
const lasting = `sh -c 'trap "touch ended; exit" TERM; touch begun; while :; do sleep 0.01; done'`

func TestACommandHasItsTime(t *testing.T) {
	shown, err := try(t, console("$ echo so far; "+lasting), "-timeout", "500ms")
	if err == nil || !strings.Contains(err.Error(), "page.md:2: not done in 500ms") || !strings.Contains(shown, "so far") {
		t.Errorf("error %v, shown:\n%s", err, shown)
	}
	wantEnded(t)
}

func TestAnInterruptEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tryUntil(t, ctx, console("$ sleep 1000")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestNothingIsLeftBehind: what a page starts in the background ends with it, but for
// what has a session of its own.
func TestNothingIsLeftBehind(t *testing.T) {
	shown, err := try(t, console("$ "+lasting+" &", "$ until [ -e begun ]; do sleep 0.01; done"))
	if err != nil {
		t.Errorf("%v:\n%s", err, shown)
	}
	wantEnded(t)
}

// wantEnded wants what has begun to have ended.
func wantEnded(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("begun"); err != nil {
		return
	}
	if _, err := os.Stat("ended"); err != nil {
		t.Errorf("it goes on: %v", err)
	}
}
