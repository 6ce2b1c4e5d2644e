package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

func TestPruneDeletesOnlyEventsFinishedBeforeTheRetention(t *testing.T) {
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
		"pending for a week":              {old + "status = 'pending'", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.appendMany(1)[0]
			f.exec("UPDATE outbox_status SET "+event.set+" WHERE id = ?", id)
			n, _, err := f.store.Prune(t.Context(), 7*24*time.Hour, uuid.Nil, 10)
			if err != nil {
				t.Fatal(err)
			}
			if pruned := n == 1; pruned != event.pruned {
				t.Errorf("pruned: %t, want %t", pruned, event.pruned)
			}
		})
	}
}

func TestPruneReadsOnePageAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(5)
	f.exec("UPDATE outbox_status SET created_at = now() - interval '9 days', status = 'published', published_at = now() - interval '8 days'")
	after := uuid.Nil
	for _, want := range []int{2, 2, 1} {
		n, last, err := f.store.Prune(t.Context(), 7*24*time.Hour, after, 2)
		if n != want || err != nil || (last == uuid.Nil) != (want == 1) {
			t.Errorf("pruned %d up to %s, error %v, want %d", n, last, err, want)
		}
		after = last
	}
}

// TestP11ClocksDoNotDecideWhatIsPruned: the time in an id is from a replica's clock.
func TestP11ClocksDoNotDecideWhatIsPruned(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]struct {
		clock  time.Duration // the time in the id, relative to the database's now
		age    time.Duration // by the database's clock
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
			f := newFixture(t)
			f.publishedDaysAgo(int(event.age/day), 1)
			f.exec("UPDATE outbox_status SET id = (lpad(to_hex(?::bigint), 12, '0') || substr(replace(id::text, '-', ''), 13))::uuid",
				time.Now().Add(event.clock).UnixMilli())
			n, _, err := f.store.Prune(t.Context(), 7*day, uuid.Nil, 10)
			if pruned := n == 1; pruned != event.pruned || err != nil {
				t.Errorf("pruned: %t, error %v, want %t", pruned, err, event.pruned)
			}
		})
	}
}

// TestTheCostOfPruneDoesNotGrowWhenPagesAreReused appends and prunes a few thousand events for each
// of several days, so that new events reuse the pages of old ones.
func TestTheCostOfPruneDoesNotGrowWhenPagesAreReused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.disableAutovacuum()
	const turnovers, kept, events = 6, 10, 2000
	day := turnovers + kept
	for ; day > turnovers; day-- {
		f.publishedDaysAgo(day, events)
	}
	f.vacuum()
	var costs []int
	for ; day > 0; day-- {
		f.publishedDaysAgo(day, events)
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			return pruneAll(t, outbox.NewStore(db), time.Duration(day+kept)*24*time.Hour-12*time.Hour, events)
		}))
		f.vacuum()
	}
	wantBoundedGrowth(t, "blocks read to prune a day", 1.5, costs)
}

// pruneAll prunes in pages of 100, from the first id to the last, and checks how many events go.
func pruneAll(t *testing.T, s *outbox.Store, retention time.Duration, want int) error {
	t.Helper()
	pruned, after := 0, uuid.Nil
	for {
		n, last, err := s.Prune(t.Context(), retention, after, 100)
		if err != nil {
			return err
		}
		pruned += n
		if after = last; last == uuid.Nil {
			break
		}
	}
	if pruned != want {
		t.Errorf("pruned %d, want %d", pruned, want)
	}
	return nil
}

// publishedDaysAgo commits n events that were created and published this many days ago, with ids
// of that time.
func (f fixture) publishedDaysAgo(days, n int) {
	f.Helper()
	f.exec(`WITH event AS (
		INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, created_at)
		SELECT (lpad(to_hex((extract(epoch FROM created) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid,
			'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('a', repeat('x', 400)), created
		FROM (SELECT now() - ? * interval '1 day' + i * interval '1 millisecond' AS created FROM generate_series(1, ?) i) e
		RETURNING id, created_at)
		INSERT INTO outbox_published (id, published_at) SELECT id, created_at FROM event`, days, n)
}
