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
	newest := map[uuid.UUID]int{}
	got, after := 0, uuid.Nil
	for {
		page, next, err := operator.Published(t.Context(), w, after, 7)
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
	if n, err := operator.CountPublished(t.Context(), w, uuid.Nil); got != 60 || n != 60 || err != nil {
		t.Errorf("%d read, %d counted, error %v, want 60", got, n, err)
	}
	w = outbox.Window{Since: now.Add(-150 * time.Second), Until: now.Add(-90 * time.Second), EventKey: "order.created"}
	if n, err := operator.CountPublished(t.Context(), w, uuid.Nil); n != 20 || err != nil {
		t.Errorf("%d in a narrower window, error %v, want the 20 of version 2", n, err)
	}
}

const publishedManySQL = `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent)
  SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', '{}', '' FROM generate_series(1, ?)
  RETURNING id
)
INSERT INTO outbox_published (id) SELECT id FROM event`

// TestAPageOfPublishedEventsCostsTheSameInALongLog: republishing reads the log once, and not once
// for each page.
func TestAPageOfPublishedEventsCostsTheSameInALongLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.disableAutovacuum()
	var costs []int
	for _, more := range []int{2_000, 38_000} {
		f.exec(publishedManySQL, more)
		f.vacuum()
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			w := outbox.Window{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
			events, _, err := outbox.NewOperator(db).Published(t.Context(), w, uuid.Nil, 500)
			if len(events) != 500 {
				t.Errorf("a page of %d events", len(events))
			}
			return err
		}))
	}
	wantBoundedGrowth(t, "blocks read for a page", 1.5, costs)
}
