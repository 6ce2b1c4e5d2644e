package servers

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

// StartAndStop starts run and cancels it after a random time, and repeats this. Run must return
// nil. After each run it calls ended.
func StartAndStop(tb testing.TB, times int, longest time.Duration, run func(context.Context) error, ended func()) {
	tb.Helper()
	for range times {
		ctx, stop := context.WithCancel(tb.Context())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		// The random time is intended: there is no event to wait for.
		time.Sleep(rand.N(longest))
		stop()
		select {
		case err := <-done:
			if err != nil {
				tb.Fatalf("run returned %v", err)
			}
		case <-time.After(startTimeout):
			tb.Fatal("run does not return")
		}
		ended()
	}
}
