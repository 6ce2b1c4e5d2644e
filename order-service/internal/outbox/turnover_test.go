package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// publishedDaysAgo commits n events that were created and published so many days ago,
// with ids of that time.
func (b bench) publishedDaysAgo(days, n int) {
	b.Helper()
	b.exec(`INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, created_at, available_at)
		SELECT (lpad(to_hex((extract(epoch FROM created) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid,
			'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('a', repeat('x', 400)), created, created
		FROM (SELECT now() - ? * interval '1 day' + i * interval '1 millisecond' AS created FROM generate_series(1, ?) i) e`, days, n)
	b.exec("UPDATE outbox_events SET status = 'published', published_at = created_at WHERE status = 'pending'")
}

// TestPruneReadsNoMoreAfterTurnovers publishes and prunes a few thousand events again and
// again, so that their pages are used again: the work is the same each time.
func TestPruneReadsNoMoreAfterTurnovers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.quiet()
	const turnovers, kept, events = 6, 10, 2000
	day := turnovers + kept
	for ; day > turnovers; day-- {
		b.publishedDaysAgo(day, events)
	}
	b.vacuum()
	var costs []int
	for ; day > 0; day-- {
		b.publishedDaysAgo(day, events)
		costs = append(costs, b.blocks(func(db *postgres.DB) error {
			return pruneAll(t, outbox.NewStore(db), time.Duration(day+kept)*24*time.Hour-12*time.Hour, events)
		}))
		b.vacuum()
	}
	wantFlat(t, "blocks read to prune a day", 1.5, costs)
}

// pruneAll prunes in pages of 100 from the first id to the last one, and wants so many
// events to go.
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
