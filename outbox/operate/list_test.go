package operate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

func TestListFiltersAndPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(5)
	f.fail(ids...)
	f.exec("UPDATE outbox_queue SET failed_at = now() WHERE id = $1", ids[0])
	f.exec("UPDATE outbox_queue SET topic = 'order.cancelled' WHERE id = $1", ids[1])
	pending := f.appendMany(1)
	now, err := f.operator.Now(t.Context())
	must(t, err)
	minuteAgo := now.Add(-time.Minute)
	for name, test := range map[string]struct {
		filter operate.Filter
		after  uuid.UUID
		limit  int
		want   []uuid.UUID
	}{
		"failed":                    {filter: operate.Filter{Status: operate.Failed, Before: now}, limit: 10, want: ids},
		"a page":                    {filter: operate.Filter{Status: operate.Failed, Before: now}, limit: 2, want: ids[:2]},
		"the next page":             {filter: operate.Filter{Status: operate.Failed, Before: now}, after: ids[1], limit: 2, want: ids[2:4]},
		"older":                     {filter: operate.Filter{Status: operate.Failed, Before: minuteAgo}, limit: 10, want: ids[1:]},
		"of a topic":                {filter: operate.Filter{Status: operate.Failed, Topic: "order.cancelled", Before: now}, limit: 10, want: ids[1:2]},
		"of another topic":          {filter: operate.Filter{Status: operate.Failed, Topic: "order.confirmed", Before: now}, limit: 10},
		"pending":                   {filter: operate.Filter{Status: operate.Pending, Before: now}, limit: 10, want: pending},
		"pending, created long ago": {filter: operate.Filter{Status: operate.Pending, Before: minuteAgo}, limit: 10},
	} {
		found, err := f.operator.List(t.Context(), test.filter, test.after, test.limit)
		if err != nil || !slices.Equal(operate.IDsOf(found), test.want) {
			t.Errorf("%s: found %v, error %v, want %v", name, operate.IDsOf(found), err, test.want)
		}
		n, err := f.operator.Count(t.Context(), test.filter)
		if wholePage := test.limit == 10; err != nil || wholePage && n != len(test.want) {
			t.Errorf("%s: counted %d, error %v, want %d", name, n, err, len(test.want))
		}
	}
}

// TestListFindsEachStatus as the view has it, with each kind of filter.
func TestListFindsEachStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, order := range []string{"1", "2"} {
		f.everyStatus(order)
	}
	for _, status := range operate.Statuses() {
		want := readAll[uuid.UUID](f, "SELECT id FROM outbox_status WHERE status = $1 ORDER BY id", status)
		for name, test := range map[string]struct {
			filter operate.Filter
			want   []uuid.UUID
		}{
			"all":               {operate.Filter{}, want},
			"of a topic":        {operate.Filter{Topic: "order.created"}, want},
			"of no topic":       {operate.Filter{Topic: "order.lost"}, nil},
			"of a time":         {operate.Filter{Before: time.Now().Add(time.Hour)}, want},
			"of another time":   {operate.Filter{Before: time.Now().Add(-48 * time.Hour)}, nil},
			"of another reason": {operate.Filter{FailureCode: "lost"}, nil},
		} {
			test.filter.Status = status
			found, err := f.operator.List(t.Context(), test.filter, uuid.Nil, 100)
			if err != nil || !slices.Equal(operate.IDsOf(found), test.want) {
				t.Errorf("%s %s: found %v, error %v, want %v", status, name, operate.IDsOf(found), err, test.want)
			}
			for _, e := range found {
				if e.Status != status {
					t.Errorf("%s %s: found %+v", status, name, e)
				}
			}
			if n, err := f.operator.Count(t.Context(), test.filter); err != nil || n != len(test.want) {
				t.Errorf("%s %s: counted %d, error %v, want %d", status, name, n, err, len(test.want))
			}
		}
	}
	if _, err := f.operator.List(t.Context(), operate.Filter{Status: "lost"}, uuid.Nil, 1); err == nil {
		t.Error("a status that is not known has no error")
	}
}
