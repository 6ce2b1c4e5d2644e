package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

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
	got, after := 0, outbox.Position{}
	for {
		page, err := operator.Published(t.Context(), w, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.AggregateVersion != newest[e.AggregateID]+1 {
				t.Errorf("version %d comes after %d", e.AggregateVersion, newest[e.AggregateID])
			}
			newest[e.AggregateID] = e.AggregateVersion
		}
		got, after = got+len(page), page[len(page)-1].Position
	}
	if n, err := operator.CountPublished(t.Context(), w, outbox.Position{}); got != 60 || n != 60 || err != nil {
		t.Errorf("%d read, %d counted, error %v, want 60", got, n, err)
	}
	w = outbox.Window{Since: now.Add(-150 * time.Second), Until: now.Add(-90 * time.Second), EventKey: "order.created"}
	if n, err := operator.CountPublished(t.Context(), w, outbox.Position{}); n != 20 || err != nil {
		t.Errorf("%d in a narrower window, error %v, want the 20 of version 2", n, err)
	}
}
