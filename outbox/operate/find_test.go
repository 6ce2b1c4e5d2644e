package operate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// failedKinds has failed events of several reasons and topics, ordered by id, and a pending one.
// The order of their failures is that of their ids. The last two failed at the same time, as when a
// broken queue fails many events in one transaction.
func (f fixture) failedKinds() (ids []uuid.UUID) {
	f.Helper()
	ids = f.appendMany(6)
	f.fail(ids[:5]...)
	for i, set := range []string{
		"failed_at = now() - interval '3 hours'",
		"failure_code = 'too_large', failed_at = now() - interval '2 hours'",
		"failed_at = now() - interval '1 hour', topic = 'order.cancelled'",
		"failure_code = NULL",
	} {
		f.exec("UPDATE outbox_queue SET "+set+" WHERE id = $1", ids[i])
	}
	f.exec("UPDATE outbox_queue SET failed_at = now() WHERE id = ANY ($1)", ids[3:5])
	return ids
}

func TestFailedEventsAreFoundByEachField(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.failedKinds()
	now, err := f.operator.Now(t.Context())
	must(t, err)
	failed := readAll[time.Time](f, "SELECT failed_at FROM outbox_queue WHERE id = $1", ids[2])[0]
	for name, test := range map[string]struct {
		filter operate.Filter
		want   []int
	}{
		"any":                {operate.Filter{}, []int{0, 1, 2, 3, 4}},
		"a code":             {operate.Filter{FailureCode: "refused"}, []int{0, 2, 4}},
		"a code and a topic": {operate.Filter{FailureCode: "refused", Topic: "order.created"}, []int{0, 4}},
		"a topic":            {operate.Filter{Topic: "order.created"}, []int{0, 1, 3, 4}},
		"another code":       {operate.Filter{FailureCode: "bad_topic"}, nil},
		"until":              {operate.Filter{Before: now.Add(-90 * time.Minute)}, []int{0, 1}},
		"before this time":   {operate.Filter{FailureCode: "refused", Topic: "order.cancelled", Before: failed}, nil},
	} {
		test.filter.Status = operate.Failed
		var want []uuid.UUID
		for _, i := range test.want {
			want = append(want, ids[i])
		}
		var paged []uuid.UUID
		for after := uuid.Nil; ; after = paged[len(paged)-1] {
			page, err := f.operator.List(t.Context(), test.filter, after, 2)
			must(t, err)
			paged = append(paged, operate.IDsOf(page)...)
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
		m, err := f.operator.Matching(t.Context(), test.filter)
		if err != nil || m.Count != len(want) || m.More || m.At.Before(now) {
			t.Errorf("%s: %+v match, error %v, want %v", name, m, err, want)
		}
		test.filter.Newest = true
		slices.Reverse(want)
		if newest := f.pagedByFailure(test.filter); !slices.Equal(newest, want) {
			t.Errorf("%s: found the newest first %v, want %v", name, newest, want)
		}
	}
}

// pagedByFailure returns what all pages together have.
func (f fixture) pagedByFailure(filter operate.Filter) (ids []uuid.UUID) {
	f.Helper()
	for after := (operate.Cursor{}); ; {
		page, err := f.operator.Failed(f.Context(), filter, after, 2)
		must(f, err)
		ids = append(ids, operate.IDsOf(page)...)
		if len(page) < 2 {
			return ids
		}
		after = operate.Cursor{FailedAt: *page[1].FailedAt, ID: page[1].ID}
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

func TestFailuresGroupsByReasonAndTopic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if groups, more, err := f.operator.Failures(t.Context()); len(groups) != 0 || more || err != nil {
		t.Errorf("without failed events: %+v, %t, error %v", groups, more, err)
	}
	f.failedKinds()
	groups, more, err := f.operator.Failures(t.Context())
	must(t, err)
	for i := range groups {
		if groups[i].OldestSince.IsZero() {
			t.Errorf("%+v", groups[i])
		}
		groups[i].OldestSince = time.Time{}
	}
	want := []operate.FailureGroup{
		{FailureCode: "", Topic: "order.created", Count: 1, Reason: "a queue is full"},
		{FailureCode: "refused", Topic: "order.cancelled", Count: 1, Reason: "a queue is full"},
		{FailureCode: "refused", Topic: "order.created", Count: 2, Reason: "a queue is full"},
		{FailureCode: "too_large", Topic: "order.created", Count: 1, Reason: "a queue is full"},
	}
	if more || !slices.Equal(groups, want) {
		t.Errorf("%+v, want %+v", groups, want)
	}
}

func TestAFilterIsRecordedAsFlags(t *testing.T) {
	t.Parallel()
	f := operate.Filter{Topic: "order.created", FailureCode: "refused", Before: time.Unix(1, 5000)}
	want := "--topic order.created --failure-code refused --until 1970-01-01T00:00:01.000005Z"
	if f.String() != want || (operate.Filter{Status: operate.Failed}).String() != "" {
		t.Errorf("%s, want %s", f, want)
	}
}
