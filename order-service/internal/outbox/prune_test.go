package outbox_test

import (
	"testing"
	"time"
)

// TestPruneDeletesOnlyWhatWasFinishedLongAgo has an event of each kind, and counts
// those that are left.
func TestPruneDeletesOnlyWhatWasFinishedLongAgo(t *testing.T) {
	t.Parallel()
	const old = "created_at = now() - interval '8 days', "
	for name, event := range map[string]struct {
		set    string
		pruned bool
	}{
		"published long ago":              {old + "status = 'published', published_at = now() - interval '8 days'", true},
		"discarded long ago":              {old + "status = 'discarded', failed_at = now() - interval '8 days'", true},
		"published today":                 {"status = 'published', published_at = now()", false},
		"created long ago, published now": {old + "status = 'published', published_at = now()", false},
		"failed long ago":                 {old + "status = 'failed', failed_at = now() - interval '8 days'", false},
		"pending for long":                {old + "status = 'pending'", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			id := b.appendMany(1)[0]
			b.exec("UPDATE outbox_events SET "+event.set+" WHERE id = ?", id)
			n, err := b.store.Prune(t.Context(), 7*24*time.Hour, 10)
			if err != nil {
				t.Fatal(err)
			}
			if pruned := n == 1; pruned != event.pruned {
				t.Errorf("pruned: %t, want %t", pruned, event.pruned)
			}
		})
	}
}

func TestPruneTakesOneBatchAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.appendMany(5)
	b.exec("UPDATE outbox_events SET created_at = now() - interval '9 days', status = 'published', published_at = now() - interval '8 days'")
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := b.store.Prune(t.Context(), 7*24*time.Hour, 2); n != want || err != nil {
			t.Errorf("pruned %d, error %v, want %d", n, err, want)
		}
	}
}
