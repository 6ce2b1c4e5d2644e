package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// failedKinds has failed events of several reasons and keys, ordered by id, and others.
func (f fixture) failedKinds() (ids []uuid.UUID) {
	f.Helper()
	ids = f.appendMany(6)
	slices.SortFunc(ids, compareIDs)
	for i, set := range []string{
		"failure_code = 'refused', failed_at = now() - interval '3 hours'",
		"failure_code = 'too_large', failed_at = now() - interval '2 hours'",
		"failure_code = 'refused', failed_at = now() - interval '1 hour', event_key = 'order.cancelled'",
		"failure_code = NULL, failed_at = now()",
		"failure_code = 'refused', failed_at = now()",
	} {
		f.exec("UPDATE outbox_status SET status = 'failed', "+set+" WHERE id = ?", ids[i])
	}
	return ids
}

func (f fixture) aggregateOf(id uuid.UUID) uuid.UUID {
	f.Helper()
	var aggregate string
	f.read(&aggregate, "SELECT aggregate_id FROM outbox_events WHERE id = ?", id)
	return uuid.MustParse(aggregate)
}

func TestFailedEventsAreFoundByEachField(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.failedKinds()
	operator := outbox.NewOperator(f.db)
	now, err := operator.Now(t.Context())
	must(t, err)
	var failed time.Time // of the third
	f.read(&failed, "SELECT failed_at FROM outbox_queue WHERE id = ?", ids[2])
	first, pending := f.aggregateOf(ids[0]), f.aggregateOf(ids[5])
	for name, test := range map[string]struct {
		filter outbox.Filter
		want   []int
	}{
		"any":                       {outbox.Filter{}, []int{0, 1, 2, 3, 4}},
		"a code":                    {outbox.Filter{FailureCode: "refused"}, []int{0, 2, 4}},
		"a code and a key":          {outbox.Filter{FailureCode: "refused", EventKey: "order.created"}, []int{0, 4}},
		"a key":                     {outbox.Filter{EventKey: "order.created"}, []int{0, 1, 3, 4}},
		"another code":              {outbox.Filter{FailureCode: "bad_key"}, nil},
		"from":                      {outbox.Filter{From: now.Add(-90 * time.Minute)}, []int{2, 3, 4}},
		"until":                     {outbox.Filter{Before: now.Add(-90 * time.Minute)}, []int{0, 1}},
		"from this time on":         {outbox.Filter{From: failed, Before: failed.Add(time.Microsecond)}, []int{2}},
		"before this time":          {outbox.Filter{FailureCode: "refused", EventKey: "order.cancelled", Before: failed}, nil},
		"a time range of a code":    {outbox.Filter{FailureCode: "refused", From: now.Add(-90 * time.Minute), Before: now.Add(-30 * time.Minute)}, []int{2}},
		"an id":                     {outbox.Filter{ID: ids[1]}, []int{1}},
		"an id of another code":     {outbox.Filter{ID: ids[1], FailureCode: "refused"}, nil},
		"an id, too late":           {outbox.Filter{ID: ids[1], Before: now.Add(-150 * time.Minute)}, nil},
		"a pending event":           {outbox.Filter{ID: ids[5]}, nil},
		"an order":                  {outbox.Filter{AggregateType: "order", AggregateID: first}, []int{0}},
		"an order without failures": {outbox.Filter{AggregateType: "order", AggregateID: pending}, nil},
		"another type of aggregate": {outbox.Filter{AggregateType: "invoice", AggregateID: first}, nil},
	} {
		test.filter.Status = "failed"
		var want []uuid.UUID
		for _, i := range test.want {
			want = append(want, ids[i])
		}
		var paged []uuid.UUID
		for after := uuid.Nil; ; after = paged[len(paged)-1] {
			page, err := operator.Find(t.Context(), test.filter, after, 2)
			must(t, err)
			paged = append(paged, entryIDs(page)...)
			if len(page) < 2 {
				break
			}
		}
		if !slices.Equal(paged, want) {
			t.Errorf("%s: found %v, want %v", name, paged, want)
		}
		if byTime := f.pagedByFailure(test.filter); !slices.Equal(byTime, want) {
			t.Errorf("%s: found in the order of the failures %v, want %v", name, byTime, want)
		}
		c, err := operator.Choose(t.Context(), test.filter, 2)
		if err != nil || !slices.Equal(c.IDs, want[:min(2, len(want))]) || c.Matching != len(want) || c.More || c.At.Before(now) {
			t.Errorf("%s: chose %+v, error %v, want %v", name, c, err, want)
		}
		if n, err := operator.Count(t.Context(), test.filter); err != nil || n != len(want) {
			t.Errorf("%s: counted %d, error %v, want %d", name, n, err, len(want))
		}
	}
}

// pagedByFailure returns what all pages together have.
func (f fixture) pagedByFailure(filter outbox.Filter) (ids []uuid.UUID) {
	f.Helper()
	for after := (outbox.Place{}); ; {
		page, err := outbox.NewOperator(f.db).FindFailed(f.Context(), filter, after, 2)
		must(f.T, err)
		ids = append(ids, entryIDs(page)...)
		if len(page) < 2 {
			return ids
		}
		after = outbox.Place{FailedAt: *page[1].FailedAt, ID: page[1].ID}
	}
}

// TestFailedEventsOfOneTimeArePagedByID: a broken queue fails many events in one transaction.
func TestFailedEventsOfOneTimeArePagedByID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(7)
	slices.SortFunc(ids, compareIDs)
	f.exec("UPDATE outbox_status SET status = 'failed', failed_at = now(), failure_code = 'refused'")
	f.exec("UPDATE outbox_queue SET event_key = 'order.cancelled' WHERE id = ?", ids[2])
	if got := f.pagedByFailure(outbox.Filter{Status: "failed"}); !slices.Equal(got, ids) {
		t.Errorf("%v, want %v", got, ids)
	}
}

func TestFailuresGroupsByReasonAndKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operator := outbox.NewOperator(f.db)
	if groups, more, err := operator.Failures(t.Context()); len(groups) != 0 || more || err != nil {
		t.Errorf("without failed events: %+v, %t, error %v", groups, more, err)
	}
	f.failedKinds()
	groups, more, err := operator.Failures(t.Context())
	must(t, err)
	var got []outbox.FailureGroup
	for _, g := range groups {
		if g.OldestSince.IsZero() || g.More {
			t.Errorf("%+v", g)
		}
		g.OldestSince = time.Time{}
		got = append(got, g)
	}
	want := []outbox.FailureGroup{
		{FailureCode: "", EventKey: "order.created", Count: 1},
		{FailureCode: "refused", EventKey: "order.cancelled", Count: 1},
		{FailureCode: "refused", EventKey: "order.created", Count: 2},
		{FailureCode: "too_large", EventKey: "order.created", Count: 1},
	}
	if more || !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCountsOfFailedEventsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.failMany(10_100)
	operator := outbox.NewOperator(f.db)
	groups, _, err := operator.Failures(t.Context())
	must(t, err)
	largest := slices.MaxFunc(groups, func(a, b outbox.FailureGroup) int { return a.Count - b.Count })
	if largest.Count != 10_000 || !largest.More {
		t.Errorf("the largest group is %+v", largest)
	}
	c, err := operator.Choose(t.Context(), outbox.Filter{Status: "failed"}, 10_000)
	if err != nil || len(c.IDs) != 10_000 || c.Matching != 10_100 || c.More {
		t.Errorf("%d ids of %d, error %v", len(c.IDs), c.Matching, err)
	}
}

// TestADecisionLeavesEventsThatFailedLater: they are not what the operator has seen.
func TestADecisionLeavesEventsThatFailedLater(t *testing.T) {
	t.Parallel()
	inEachDecision(t, func(f fixture, _ audit.Action, decide decide) {
		seen, again := f.appendFailed(1)[0], f.appendFailed(1)[0]
		operator := outbox.NewOperator(f.db)
		c, err := operator.Choose(f.Context(), outbox.Filter{Status: "failed"}, 10)
		must(f.T, err)
		f.exec("UPDATE outbox_queue SET failed_at = now() WHERE id = ?", again)
		decided, err := decide(operator.AsOf(c.At), f.Context(), ann, c.IDs)
		if err != nil || !slices.Equal(entryIDs(decided), []uuid.UUID{seen}) {
			f.Errorf("decided %v, error %v, want %v only", entryIDs(decided), err, seen)
		}
	})
}
