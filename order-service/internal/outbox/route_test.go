package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// returnDue claims all due events, and the broker returns them as unroutable.
func (f fixture) returnDue() {
	f.Helper()
	for c := f.claim(1000); len(c.Events) > 0; c = f.claim(1000) {
		back := []outbox.Failure{}
		for _, e := range c.Events {
			back = append(back, outbox.Failure{ID: e.ID, Delay: 15 * time.Second, Code: "unroutable", Reason: "no queue is bound"})
		}
		if held, err := f.store.Reschedule(f.Context(), c.Token, back); held != len(back) || err != nil {
			f.Fatalf("%d of %d held, error %v", held, len(back), err)
		}
		if _, err := f.store.Release(f.Context(), c.Token); err != nil {
			f.Fatal(err)
		}
	}
}

func (f fixture) retryUnroutable(limit int) int {
	f.Helper()
	n, err := f.store.RetryUnroutable(f.Context(), "order.created", limit)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// probesSQL counts the events that are retried without a new route.
const probesSQL = "SELECT count(*) FROM outbox_queue WHERE available_at < 'infinity'"

func (f fixture) wantProbes(want int) {
	f.Helper()
	var n int
	if f.read(&n, probesSQL); n != want {
		f.Errorf("%d events are retried, want %d", n, want)
	}
}

func TestOnlyOneUnroutableEventOfAKeyIsRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(30)
	f.returnDue()
	f.wantProbes(1)
	f.wantDue(15, ids[0])
	f.wantDue(parked, ids[1:]...)
	f.appendMany(30)
	f.returnDue()
	f.wantProbes(1)
	f.exec(endBackOffs)
	f.returnDue()
	f.wantProbes(1)
	other := f.appendMany(2)
	f.exec("UPDATE outbox_status SET event_key = 'order.cancelled' WHERE id IN ?", other)
	f.returnDue()
	f.wantProbes(2)
	if got := f.row(ids[1]); got.Status != "pending" || got.RetryCount != 0 || got.FailureCode != "unroutable" {
		t.Errorf("got %+v, want pending, unroutable, and no attempt counted", got)
	}
}

// TestRetryUnroutableMakesEventsDueInBatches: the next batch becomes due when the last one is
// claimed.
func TestRetryUnroutableMakesEventsDueInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(25)
	f.returnDue()
	published := []uuid.UUID{}
	for _, want := range []int{10, 10, 5} {
		if n := f.retryUnroutable(10); n != want {
			t.Errorf("made %d due, want %d", n, want)
		}
		if n := f.retryUnroutable(10); n != 0 {
			t.Errorf("made %d more due, although %d are due already", n, want)
		}
		c := f.claim(100)
		if slices.ContainsFunc(c.Events, func(e outbox.Claimed) bool { return !e.Unroutable }) {
			t.Error("Unroutable is false for an event that was returned")
		}
		published = append(published, idsOf(c)...)
		if err := f.store.MarkPublished(t.Context(), uuid.Nil, idsOf(c)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(published, ids) {
		t.Errorf("published %v, want %v", published, ids)
	}
}

// TestP7LaterEventsWaitForARouteWithTheFirst, if they were appended before the broker returned the
// first one, and also if they were appended after it.
func TestP7LaterEventsWaitForARouteWithTheFirst(t *testing.T) {
	t.Parallel()
	for name, retry := range map[string]func(fixture, uuid.UUID){
		"retried":        func(f fixture, _ uuid.UUID) { f.retryUnroutable(100) },
		"a late confirm": func(f fixture, id uuid.UUID) { must(t, f.store.MarkPublished(f.Context(), uuid.Nil, []uuid.UUID{id})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.appendMany(1) // the probe
			order := uuid.New()
			ids := f.append(order, 1, 2)
			f.returnDue()
			ids = append(ids, f.append(order, 3)...)
			f.claim(10)
			f.wantDue(parked, ids...)
			retry(f, ids[0])
			for c := f.claim(100); len(c.Events) > 0; c = f.claim(100) {
				must(t, f.store.MarkPublished(t.Context(), c.Token, idsOf(c)))
			}
			f.wantNone("SELECT count(*) FROM outbox_queue WHERE aggregate_version > 1")
		})
	}
}

// TestALostProbeIsReplaced: a relay died after the broker confirmed the probe, and before it made
// the first batch due.
func TestALostProbeIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(5)
	f.returnDue()
	if n, err := f.store.ProbeRoutes(t.Context()); n != 0 || err != nil {
		t.Errorf("made %d probes, error %v, want none: there is one", n, err)
	}
	must(t, f.store.MarkPublished(t.Context(), uuid.Nil, ids[:1]))
	f.runJanitorUntil("SELECT count(*) - 3 FROM outbox_queue WHERE available_at = 'infinity'", time.Hour)
	f.wantDue(0, ids[1])
	f.wantDue(parked, ids[2:]...)
}

// TestUnroutableEventsDoNotSlowOtherKeys, however many there are.
func TestUnroutableEventsDoNotSlowOtherKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.disableAutovacuum()
	var costs []int
	for _, waiting := range []int{2000, 20_000} {
		f.exec(appendManySQL, "order.confirmed", waiting)
		f.returnDue()
		// The probe is not due during the measurement, however slow the machine is.
		f.exec("UPDATE outbox_queue SET available_at = now() + interval '1 hour' WHERE failure_code = 'unroutable' AND available_at < 'infinity'")
		f.vacuum()
		f.appendMany(100)
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			s := outbox.NewStore(db)
			c, err := s.Claim(t.Context(), "test", 500, lease)
			if err == nil && len(c.Events) != 100 {
				t.Errorf("claimed %d, want the 100 of other keys", len(c.Events))
			}
			must(t, s.MarkPublished(t.Context(), uuid.Nil, idsOf(c)))
			_, err = s.ProbeRoutes(t.Context())
			return err
		}))
	}
	wantBoundedGrowth(t, "blocks read to claim, publish and look for probes", 1.5, costs)
}

// TestTheCostOfRetryUnroutableDoesNotGrowWithTheBacklog, whatever statistics the planner has: no
// table is analysed here.
func TestTheCostOfRetryUnroutableDoesNotGrowWithTheBacklog(t *testing.T) {
	t.Parallel()
	var costs []int
	for _, many := range []int{4000, 30_000} {
		f := newFixture(t)
		f.disableAutovacuum()
		f.exec(appendManySQL, "order.created", many)
		f.exec("UPDATE outbox_queue SET available_at = 'infinity', failure_code = 'unroutable'")
		costs = append(costs, f.blocksRead(func(db *postgres.DB) error {
			_, err := outbox.NewStore(db).RetryUnroutable(t.Context(), "order.created", 1000)
			return err
		}))
	}
	wantBoundedGrowth(t, "blocks read to make 1,000 due", 1.5, costs)
}
