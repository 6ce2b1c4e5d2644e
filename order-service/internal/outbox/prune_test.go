package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
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
			n, _, err := b.store.Prune(t.Context(), 7*24*time.Hour, uuid.Nil, 10)
			if err != nil {
				t.Fatal(err)
			}
			if pruned := n == 1; pruned != event.pruned {
				t.Errorf("pruned: %t, want %t", pruned, event.pruned)
			}
		})
	}
}

func TestPruneTakesOnePageAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.appendMany(5)
	b.exec("UPDATE outbox_events SET created_at = now() - interval '9 days', status = 'published', published_at = now() - interval '8 days'")
	after := uuid.Nil
	for _, want := range []int{2, 2, 1} {
		n, last, err := b.store.Prune(t.Context(), 7*24*time.Hour, after, 2)
		if n != want || err != nil || (last == uuid.Nil) != (want == 1) {
			t.Errorf("pruned %d up to %s, error %v, want %d", n, last, err, want)
		}
		after = last
	}
}

// TestP11ClocksDoNotDecideWhatIsPruned: an id has the time of a replica's clock.
func TestP11ClocksDoNotDecideWhatIsPruned(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, event := range map[string]struct {
		clock  time.Duration // of the replica, against the database's now
		age    time.Duration // by the database
		pruned bool
	}{
		"old, its clock was right":          {-8 * day, 8 * day, true},
		"old, its clock was years too slow": {-800 * day, 8 * day, true},
		"old, its clock was years too fast": {800 * day, 8 * day, true},
		"new, its clock was right":          {0, 0, false},
		"new, its clock is years too slow":  {-800 * day, 0, false},
		"new, its clock is years too fast":  {800 * day, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.publishedDaysAgo(int(event.age/day), 1)
			b.exec("UPDATE outbox_events SET id = (lpad(to_hex(?::bigint), 12, '0') || substr(replace(id::text, '-', ''), 13))::uuid",
				time.Now().Add(event.clock).UnixMilli())
			n, _, err := b.store.Prune(t.Context(), 7*day, uuid.Nil, 10)
			if pruned := n == 1; pruned != event.pruned || err != nil {
				t.Errorf("pruned: %t, error %v, want %t", pruned, err, event.pruned)
			}
		})
	}
}

// TestTheJanitorPrunesBeyondWhatStays has a few pages of old events that failed before
// those that were published.
func TestTheJanitorPrunesBeyondWhatStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.publishedDaysAgo(9, 3000)
	b.exec("UPDATE outbox_events SET status = 'failed', failed_at = published_at, published_at = NULL")
	b.publishedDaysAgo(8, 3000)
	b.tidyUntil("SELECT count(*) FROM outbox_events WHERE status = 'published'", 7*24*time.Hour)
}
