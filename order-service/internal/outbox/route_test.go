package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// returned claims everything that is due, and lets the broker return it.
func (b bench) returned() {
	b.Helper()
	for c := b.claim(1000); len(c.Events) > 0; c = b.claim(1000) {
		back := []outbox.Setback{}
		for _, e := range c.Events {
			back = append(back, outbox.Setback{ID: e.ID, Delay: 15 * time.Second, Code: "unroutable", Reason: "no queue is bound"})
		}
		if held, err := b.store.Reschedule(b.Context(), c.Token, back); held != len(back) || err != nil {
			b.Fatalf("%d of %d held, error %v", held, len(back), err)
		}
	}
}

func (b bench) bringBack(limit int) int {
	b.Helper()
	n, err := b.store.BringBack(b.Context(), "order.created", limit)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// probes counts the events that are tried again by themselves.
const probes = "SELECT count(*) FROM outbox_events WHERE status = 'pending' AND available_at < 'infinity'"

func (b bench) wantProbes(want int) {
	b.Helper()
	var n int
	if b.read(&n, probes); n != want {
		b.Errorf("%d events are tried again, want %d", n, want)
	}
}

func TestOneUnroutableEventOfAKeyIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(30)
	b.returned()
	b.wantProbes(1)
	b.wantDue(15, ids[0])
	b.wantDue(parked, ids[1:]...)
	b.appendMany(30)
	b.returned()
	b.wantProbes(1)
	b.exec(endBackOffs)
	b.returned()
	b.wantProbes(1)
	other := b.appendMany(2)
	b.exec("UPDATE outbox_events SET event_key = 'order.cancelled' WHERE id IN ?", other)
	b.returned()
	b.wantProbes(2)
	if got := b.row(ids[1]); got.Status != "pending" || got.RetryCount != 0 || got.FailureCode != "unroutable" {
		t.Errorf("%+v: no attempt was spent", got)
	}
}

// TestWhatWaitsForARouteComesBackInBatches that are claimed before the next one comes.
func TestWhatWaitsForARouteComesBackInBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(25)
	b.returned()
	published := []uuid.UUID{}
	for _, want := range []int{10, 10, 5} {
		if n := b.bringBack(10); n != want {
			t.Errorf("%d came back, want %d", n, want)
		}
		if n := b.bringBack(10); n != 0 {
			t.Errorf("%d more came back, and %d are due", n, want)
		}
		c := b.claim(100)
		if slices.ContainsFunc(c.Events, func(e outbox.Claimed) bool { return !e.Unroutable }) {
			t.Error("a claim does not tell what has waited for a route")
		}
		published = append(published, idsOf(c)...)
		if err := b.store.MarkPublished(t.Context(), idsOf(c)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(published, ids) {
		t.Errorf("published %v, want %v", published, ids)
	}
}

// TestP7LaterEventsWaitForARouteWithTheFirst whether they are there before it is returned
// or come after it.
func TestP7LaterEventsWaitForARouteWithTheFirst(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(bench, uuid.UUID){
		"brought back":   func(b bench, _ uuid.UUID) { b.bringBack(100) },
		"a late confirm": func(b bench, id uuid.UUID) { must(t, b.store.MarkPublished(b.Context(), []uuid.UUID{id})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.appendMany(1) // the probe
			order := uuid.New()
			ids := b.append(order, 1, 2)
			b.returned()
			ids = append(ids, b.append(order, 3)...)
			b.wantDue(parked, ids...)
			back(b, ids[0])
			b.wantDue(0, ids[1:]...)
			b.wantNone(astray)
			b.wantNone(inTheWay)
		})
	}
}

// TestAnAppendWhileItsOrderIsBroughtBackIsNotParked: the appender has seen the event wait,
// and whoever brings it back cannot see the appender's.
func TestAnAppendWhileItsOrderIsBroughtBackIsNotParked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.appendMany(1)
	order := uuid.New()
	first := b.append(order, 1)[0]
	b.returned()
	second := message(order, 2)
	must(t, b.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := outbox.Append(t.Context(), tx, second); err != nil {
			return err
		}
		var seen int // what was appended is there, and is not committed
		if err := tx.Gorm(t.Context()).Raw("SELECT count(*) FROM outbox_events").Scan(&seen).Error; err != nil {
			return err
		}
		b.bringBack(100) // passes over what the appender holds
		return nil
	}))
	b.wantDue(parked, first, second.ID)
	b.bringBack(100)
	b.wantDue(0, first, second.ID)
}

// TestAProbeThatGotLostIsReplaced: a relay died after its confirm, before it brought the
// first batch back.
func TestAProbeThatGotLostIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(5)
	b.returned()
	if n, err := b.store.ProbeRoutes(t.Context()); n != 0 || err != nil {
		t.Errorf("%d probes, error %v, and there is one", n, err)
	}
	must(t, b.store.MarkPublished(t.Context(), ids[:1]))
	b.tidyUntil("SELECT count(*) - 3 FROM outbox_events WHERE available_at = 'infinity'", time.Hour)
	b.wantDue(0, ids[1])
	b.wantDue(parked, ids[2:]...)
}

// TestEventsThatWaitForARouteCostOthersNothing however many there are.
func TestEventsThatWaitForARouteCostOthersNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.quiet()
	var costs []int
	for _, waiting := range []int{2000, 20_000} {
		b.exec(manySQL, "order.confirmed", waiting)
		b.returned()
		// The probe is not due during the measurement, however slow the machine is.
		b.exec("UPDATE outbox_events SET available_at = now() + interval '1 hour' WHERE failure_code = 'unroutable' AND available_at < 'infinity'")
		b.vacuum()
		b.appendMany(100)
		costs = append(costs, b.blocks(func(db *postgres.DB) error {
			s := outbox.NewStore(db)
			c, err := s.Claim(t.Context(), "test", 500, lease)
			if err == nil && len(c.Events) != 100 {
				t.Errorf("claimed %d, want the 100 of other keys", len(c.Events))
			}
			must(t, s.MarkPublished(t.Context(), idsOf(c)))
			_, err = s.ProbeRoutes(t.Context())
			return err
		}))
	}
	wantFlat(t, "blocks read to claim, publish and look for probes", 1.5, costs)
}

// TestABatchComesBackAtTheSameCost however many wait, and whatever the planner's statistics
// are: nothing is analysed here.
func TestABatchComesBackAtTheSameCost(t *testing.T) {
	t.Parallel()
	var costs []int
	for _, many := range []int{4000, 30_000} {
		b := newBench(t)
		b.quiet()
		b.exec(manySQL, "order.created", many)
		b.exec("UPDATE outbox_events SET available_at = 'infinity', failure_code = 'unroutable'")
		costs = append(costs, b.blocks(func(db *postgres.DB) error {
			_, err := outbox.NewStore(db).BringBack(t.Context(), "order.created", 1000)
			return err
		}))
	}
	wantFlat(t, "blocks read to bring 1,000 back", 1.5, costs)
}
