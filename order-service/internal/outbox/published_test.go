package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestP7PublishedEventsComeInTheOrderOfTheirVersions, whatever their times and ids are, and also
// when an order spans two pages.
func TestP7PublishedEventsComeInTheOrderOfTheirVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 20 {
		f.append(uuid.New(), 3, 2, 1) // the versions are in the opposite order of seq
	}
	f.exec("UPDATE outbox_status SET status = 'published', published_at = now() - aggregate_version * interval '1 minute'")
	f.appendMany(1)
	operator := outbox.NewOperator(f.db)
	now, err := operator.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := outbox.Window{Since: now.Add(-time.Hour), Until: now}
	in, err := operator.PublishedRange(t.Context(), w, uuid.Nil)
	if err != nil {
		t.Fatal(err)
	}
	newest := map[uuid.UUID]int{}
	got, after := 0, uuid.Nil
	for {
		page, next, err := operator.Published(t.Context(), w, in, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if next == uuid.Nil {
			break
		}
		for _, e := range page {
			if e.AggregateVersion != newest[e.AggregateID]+1 {
				t.Errorf("version %d comes after %d", e.AggregateVersion, newest[e.AggregateID])
			}
			newest[e.AggregateID] = e.AggregateVersion
		}
		got, after = got+len(page), next
	}
	if got != 60 || in.Events != 60 {
		t.Errorf("%d read, %d counted, want 60", got, in.Events)
	}
	w = outbox.Window{Since: now.Add(-150 * time.Second), Until: now.Add(-90 * time.Second), EventKey: "order.created"}
	if in, err := operator.PublishedRange(t.Context(), w, uuid.Nil); in.Events != 20 || err != nil {
		t.Errorf("%d in a narrower window, error %v, want the 20 of version 2", in.Events, err)
	}
}

const publishedManySQL = `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent)
  SELECT (left(outbox_first_id(now())::text, 24) || lpad(to_hex(i), 12, '0'))::uuid, 'order', gen_random_uuid(), 1, 'order.created', '{}', ''
  FROM generate_series(1, ?) i
  RETURNING id
)
INSERT INTO outbox_published (id, published_at) SELECT id, now() - ? * interval '1 hour' FROM event`

// TestRepublishingReadsOnlyItsWindow: to find what was published in the last minute, and to read
// the first page of it, costs the same in a long log.
func TestRepublishingReadsOnlyItsWindow(t *testing.T) {
	t.Parallel()
	var costs []int
	for _, older := range []int{2_000, 100_000} {
		f := newFixture(t)
		f.disableAutovacuum()
		f.exec(publishedManySQL, older, 2)
		f.exec(publishedManySQL, 500, 0)
		f.vacuum()
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			operator := outbox.NewOperator(db)
			w := outbox.Window{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
			in, err := operator.PublishedRange(t.Context(), w, uuid.Nil)
			if err != nil {
				return err
			}
			events, _, err := operator.Published(t.Context(), w, in, uuid.Nil, 500)
			if in.Events != 500 || len(events) != 500 {
				t.Errorf("%d events, a page of %d", in.Events, len(events))
			}
			return err
		}))
	}
	wantBoundedGrowth(t, "blocks read for the first page", 3, costs)
}
