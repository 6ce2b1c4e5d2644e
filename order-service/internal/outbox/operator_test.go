package outbox_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

func TestFindFiltersAndPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, f.appendFailed(1)...)
	}
	slices.SortFunc(ids, compareIDs)
	recent, other := ids[0], ids[1]
	f.exec("UPDATE outbox_status SET failed_at = now() WHERE id = ?", recent)
	f.exec("UPDATE outbox_status SET event_key = 'order.cancelled' WHERE id = ?", other)
	pending := f.appendMany(1)
	operator := outbox.NewOperator(f.db)
	now, err := operator.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	minuteAgo := now.Add(-time.Minute)
	tests := map[string]struct {
		filter outbox.Filter
		after  uuid.UUID
		limit  int
		want   []uuid.UUID
	}{
		"failed":                    {filter: outbox.Filter{Status: "failed", Before: now}, limit: 10, want: ids},
		"a page":                    {filter: outbox.Filter{Status: "failed", Before: now}, limit: 2, want: ids[:2]},
		"the next page":             {filter: outbox.Filter{Status: "failed", Before: now}, after: ids[1], limit: 2, want: ids[2:4]},
		"older":                     {filter: outbox.Filter{Status: "failed", Before: minuteAgo}, limit: 10, want: ids[1:]},
		"of a key":                  {filter: outbox.Filter{Status: "failed", EventKey: "order.cancelled", Before: now}, limit: 10, want: ids[1:2]},
		"of another key":            {filter: outbox.Filter{Status: "failed", EventKey: "order.confirmed", Before: now}, limit: 10},
		"pending":                   {filter: outbox.Filter{Status: "pending", Before: now}, limit: 10, want: pending},
		"pending, created long ago": {filter: outbox.Filter{Status: "pending", Before: minuteAgo}, limit: 10},
	}
	for name, test := range tests {
		found, err := operator.Find(t.Context(), test.filter, test.after, test.limit)
		if err != nil || !slices.Equal(entryIDs(found), test.want) {
			t.Errorf("%s: found %v, error %v, want %v", name, entryIDs(found), err, test.want)
		}
		n, err := operator.Count(t.Context(), test.filter)
		if wholePage := test.limit == 10; err != nil || wholePage && n != len(test.want) {
			t.Errorf("%s: counted %d, error %v, want %d", name, n, err, len(test.want))
		}
	}
}

func TestTheAgeOfAFailedEventCountsFromItsFailure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.appendFailed(1)[0]
	entries, err := outbox.NewOperator(f.db).Get(t.Context(), id)
	if err != nil || len(entries) != 1 || entries[0].Age < 3600 || entries[0].Age > 3660 {
		t.Errorf("got %+v, error %v, want an age of an hour", entries, err)
	}
}

func TestShowReportsBlockingAndWaitingEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append(uuid.New(), 1, 2, 3, 4, 5)
	f.appendMany(1)
	f.exec("UPDATE outbox_status SET status = 'published', published_at = now() WHERE id IN ?", ids[:1])
	f.exec("UPDATE outbox_status SET status = 'failed', failed_at = now() WHERE id = ?", ids[1])
	operator := outbox.NewOperator(f.db)
	tests := map[string]struct {
		id        uuid.UUID
		blockedBy []uuid.UUID
		waiting   int
	}{
		"published":  {id: ids[0]},
		"failed":     {id: ids[1], waiting: 3},
		"blocked":    {id: ids[2], blockedBy: ids[1:2], waiting: 2},
		"the newest": {id: ids[4], blockedBy: ids[1:4]},
	}
	for name, test := range tests {
		d, err := operator.Show(t.Context(), test.id)
		if err != nil || d.ID != test.id || !slices.Equal(entryIDs(d.BlockedBy), test.blockedBy) || d.Waiting != test.waiting {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
		if string(d.Payload) != `{"a": 1}` || d.Seq == 0 {
			t.Errorf("%s: the event is not complete: %+v", name, d)
		}
	}
	if _, err := operator.Show(t.Context(), uuid.New()); !errors.Is(err, outbox.ErrNoEvent) {
		t.Errorf("an unknown id: error %v, want ErrNoEvent", err)
	}
}
