package operate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

// publishedOrders publishes 20 orders with three versions each, and 5 events without an aggregate.
// Neither their times nor their ids are in the order of the versions.
func (f fixture) publishedOrders() (all []uuid.UUID) {
	f.Helper()
	for range 20 {
		all = append(all, f.append(uuid.NewString(), 3, 2, 1)...)
	}
	f.publish("now() - version * interval '1 minute'", all...)
	for range 5 {
		id := f.appendAlone()
		f.publish("now() - interval '1 minute'", id)
		all = append(all, id)
	}
	return all
}

func TestAWindowHasTheEventsThatWerePublishedInIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publishedOrders()
	now, err := f.operator.Now(t.Context())
	must(t, err)
	for name, test := range map[string]struct {
		window operate.Window
		want   int
	}{
		"the time of version 2": {operate.Window{Since: now.Add(-150 * time.Second), Until: now.Add(-90 * time.Second)}, 20},
		"a topic":               {operate.Window{Since: now.Add(-time.Hour), Until: now, Topic: "report"}, 5},
		"a later time":          {operate.Window{Since: now, Until: now.Add(time.Hour)}, 0},
	} {
		r, err := f.operator.Republish(t.Context(), test.window, uuid.Nil)
		must(t, err)
		read := 0
		must(t, r.Each(t.Context(), func(page []operate.Event) error { read += len(page); return nil }))
		if r.Total != test.want || read != test.want || r.Sent != test.want {
			t.Errorf("%s: %d counted, %d read, want %d", name, r.Total, read, test.want)
		}
	}
}

// fakeSession answers each batch with its function.
type fakeSession func([]publish.Message) []publish.Result

func (s fakeSession) NewPublisher(int) (publish.Publisher, error) { return s, nil }
func (s fakeSession) Blocked() bool                               { return false }
func (s fakeSession) Close()                                      {}
func (s fakeSession) Publish(_ context.Context, batch []publish.Message, answer func(int, publish.Result)) {
	for i, r := range s(batch) {
		answer(i, r)
	}
}

// TestP7RepublishSendsAVersionAfterTheOneBeforeItWasTaken, whatever the times and ids of the events
// are, and also when an order spans two pages. It sends nothing without its record, and goes on
// after an error.
func TestP7RepublishSendsAVersionAfterTheOneBeforeItWasTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := f.publishedOrders()
	f.appendMany(1)
	f.exec("UPDATE outbox_events SET destination = 'reports' WHERE topic = 'report'")
	found, err := f.operator.Get(t.Context(), all...)
	must(t, err)
	events := map[string]operate.Event{}
	for _, e := range found {
		events[e.ID.String()] = e
	}
	w := operate.Window{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
	by := operate.NewDecision("ann", operate.CLI, "--since 1h")
	full, calls, taken := errors.New("a queue is full"), 0, map[string]int{}
	var sent []uuid.UUID
	session := fakeSession(func(batch []publish.Message) (results []publish.Result) {
		calls++
		for i, m := range batch {
			if calls == 2 && i == 0 {
				results = append(results, publish.Result{Outcome: publish.Refused, Err: full})
				continue
			}
			e := events[m.ID]
			if isReport := m.Destination == "reports"; isReport != (m.Topic == "report") || isReport != (e.Topic == "reports/report") {
				t.Errorf("%s was sent to %q, and is shown as %s", m.Topic, m.Destination, e.Topic)
			}
			if m.Destination != e.Destination || m.AppID != "orders" || string(m.Body) != `{"a": 1}` || m.Headers["h"] != "text" {
				t.Errorf("sent %+v", m)
			}
			if e.Aggregate != "" && e.Version > taken[e.AggregateID]+1 {
				t.Errorf("version %d was sent after %d", e.Version, taken[e.AggregateID])
			}
			taken[e.AggregateID], sent = e.Version, append(sent, e.ID)
			results = append(results, publish.Result{Outcome: publish.Confirmed})
		}
		return results
	})
	r, err := f.operator.Republish(t.Context(), w, uuid.Nil)
	must(t, err)
	r.AppID = "orders"
	operate.SetPageSize(r, 7)
	f.exec("ALTER TABLE operator_decisions ADD CONSTRAINT refused CHECK (action <> 'republish')")
	if err := r.Send(t.Context(), by, session, nil); err == nil || r.Sent != 0 || calls != 0 {
		t.Errorf("without a record: %+v after %d batches, error %v", r, calls, err)
	}
	f.exec("ALTER TABLE operator_decisions DROP CONSTRAINT refused")
	err = r.Send(t.Context(), by, session, nil)
	if refused, ok := errors.AsType[*operate.NotTakenError](err); !ok || refused.Outcome != publish.Refused || !errors.Is(err, full) ||
		r.Sent != 0 || r.After != uuid.Nil || calls != 2 {
		t.Fatalf("%+v after %d batches, error %v", r, calls, err)
	}
	if d, err := f.log.Get(t.Context(), by.Decision); err != nil || d.Unfinished != 1 || d.Action != operate.Republish {
		t.Errorf("recorded %+v, error %v", d, err)
	}
	clear(taken) // the first page is sent again
	var again []operate.Event
	pages := 0
	must(t, r.Send(t.Context(), by, session, func(page []operate.Event) error {
		pages, again = pages+1, append(again, page...)
		return nil
	}))
	for _, e := range again {
		if e.PublishedAt == nil || e.Status != operate.Published {
			t.Errorf("%+v", e)
		}
	}
	slices.SortFunc(all, compareIDs)
	done := operate.IDsOf(again)
	slices.SortFunc(done, compareIDs)
	slices.SortFunc(sent, compareIDs)
	if r.Total != len(all) || r.Sent != len(all) || pages < 5 || !slices.Equal(done, all) || !slices.Equal(slices.Compact(sent), all) {
		t.Errorf("%d of %d sent on %d pages, want each of %d once", r.Sent, r.Total, pages, len(all))
	}
	if d, err := f.log.Get(t.Context(), by.Decision); err != nil || d.Batches != pages+1 || d.Unfinished != 1 || d.Done != len(all) {
		t.Errorf("recorded %+v, error %v", d, err)
	}
	if r, err := f.operator.Republish(t.Context(), w, r.After); err != nil || r.Total != 0 {
		t.Errorf("after the last event: %+v, error %v", r, err)
	}
	if _, err := f.operator.Republish(t.Context(), w, uuid.New()); !errors.Is(err, operate.ErrNoEvent) {
		t.Errorf("after an unknown event: error %v", err)
	}
}
