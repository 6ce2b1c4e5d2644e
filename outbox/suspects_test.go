package outbox

import (
	"sync"
	"testing"
)

// TestSuspectsNeverBecomeNegative: several workers clear the last suspect at the same time.
func TestSuspectsNeverBecomeNegative(t *testing.T) {
	t.Parallel()
	r := testRelay(newFakeOutbox(0))
	const workers = 4
	for range 20_000 {
		r.suspects.Store(1)
		var ready, done sync.WaitGroup
		ready.Add(workers)
		for range workers {
			done.Go(func() {
				ready.Done()
				ready.Wait()
				r.clearSuspect()
			})
		}
		done.Wait()
		if n := r.suspects.Load(); n != 0 {
			t.Fatalf("%d suspects, want none", n)
		}
	}
}
