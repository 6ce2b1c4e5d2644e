package outbox_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// fail lets a relay claim everything that is due, and give these events up. It
// releases the rest.
func (b bench) fail(ids ...uuid.UUID) {
	b.Helper()
	c := b.claim(1000)
	for _, id := range ids {
		if _, held, err := b.store.Fail(b.Context(), c.Token, outbox.Setback{ID: id, Code: "refused"}); held != 1 || err != nil {
			b.Fatalf("%d held, error %v", held, err)
		}
	}
	if _, err := b.store.Release(b.Context(), c.Token, idsOf(c)); err != nil {
		b.Fatal(err)
	}
}

// wantDue wants each event to be due in so many seconds, or a minute less.
func (b bench) wantDue(seconds float64, ids ...uuid.UUID) {
	b.Helper()
	for i, id := range ids {
		got := b.row(id).DueInSeconds
		if far := seconds - got; math.IsInf(got, 1) != math.IsInf(seconds, 1) || far < 0 || far > 60 {
			b.Errorf("event %d is due in %g s, want %g", i+1, got, seconds)
		}
	}
}

// parked is when an event is due that only a decision brings back.
var parked = math.Inf(1)

const (
	// parking is true of p, behind which later events are parked.
	parking = `p.aggregate_id = n.aggregate_id AND p.aggregate_version < n.aggregate_version AND (p.status = 'failed' OR ` + waiting + `)`
	// waiting is true of p while it waits for a route.
	waiting = `p.status = 'pending' AND p.failure_code = 'unroutable' AND p.available_at = 'infinity'`
	// astray counts what is parked behind nothing.
	astray = `SELECT count(*) FROM outbox_events n WHERE status = 'pending' AND available_at = 'infinity' AND failure_code IS DISTINCT FROM 'unroutable'
		AND NOT EXISTS (SELECT FROM outbox_events p WHERE ` + parking + `)`
	// inTheWay counts what is due behind something that parks it.
	inTheWay = `SELECT count(*) FROM outbox_events n WHERE status = 'pending' AND available_at < 'infinity'
		AND EXISTS (SELECT FROM outbox_events p WHERE ` + parking + `)`
)

func (b bench) wantNone(query string) {
	b.Helper()
	var n int
	if b.read(&n, query); n != 0 {
		b.Errorf("%d rows, want none, of %s", n, query)
	}
}

func TestWhatIsBehindAFailedEventIsParked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := uuid.New()
	ids := b.append(order, 1, 2, 3)
	bystander := b.appendMany(1)
	b.fail(ids[0])
	ids = append(ids, b.append(order, 4, 5)...)
	b.wantDue(parked, ids[1:]...)
	b.wantDue(0, bystander...)
	b.wantDue(0, b.appendMany(1)...)
}

// TestADecisionBringsBackWhatIsParked lets each of those decide who can.
func TestADecisionBringsBackWhatIsParked(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(bench, uuid.UUID) error{
		"Replay":         func(b bench, id uuid.UUID) error { return b.replay(id) },
		"Discard":        func(b bench, id uuid.UUID) error { return b.discard(id) },
		"a late confirm": func(b bench, id uuid.UUID) error { return b.store.MarkPublished(b.Context(), []uuid.UUID{id}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ids, others := b.append(uuid.New(), 1, 2, 3), b.append(uuid.New(), 1, 2)
			b.fail(ids[0], others[0])
			if err := decide(b, ids[0]); err != nil {
				t.Fatal(err)
			}
			b.wantDue(0, ids[1:]...)
			b.wantDue(parked, others[1])
		})
	}
}

// TestWhatIsBroughtBackStaysBehindWhatElseHoldsIt has an aggregate as only a hand in the
// table makes it: with two failed events, and one backed off.
func TestWhatIsBroughtBackStaysBehindWhatElseHoldsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.append(uuid.New(), 1, 2, 3, 4, 5)
	b.fail(ids[0])
	b.exec("UPDATE outbox_events SET available_at = now() + interval '1 hour' WHERE id = ?", ids[1])
	b.exec("UPDATE outbox_events SET status = 'failed', failed_at = now() WHERE id = ?", ids[3])
	if err := b.discard(ids[0]); err != nil {
		t.Fatal(err)
	}
	b.wantDue(3600, ids[1], ids[2])
	b.wantDue(parked, ids[4])
}

func TestReleaseMovesLaterEventsBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.append(uuid.New(), 1, 2)
	c := b.claim(1)
	if held, err := b.store.Release(t.Context(), c.Token, idsOf(c)); held != 1 || err != nil {
		t.Fatalf("%d held, error %v", held, err)
	}
	var order []uuid.UUID
	b.read(&order, "SELECT id FROM outbox_events ORDER BY available_at, seq")
	if !slices.Equal(order, ids) {
		t.Errorf("they are due in the order %v, want %v", order, ids)
	}
}

// TestAParkedEventIsReadLikeAnyOther, although Go has no time for infinity.
func TestAParkedEventIsReadLikeAnyOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := uuid.New()
	ids := b.append(order, 1, 2)
	b.fail(ids[0])
	d, err := outbox.NewOperator(b.db).Show(t.Context(), ids[1])
	if err != nil || !d.AvailableAt.IsZero() || !slices.Equal(entryIDs(d.BlockedBy), ids[:1]) {
		t.Errorf("%+v, error %v", d, err)
	}
	err = b.db.InSnapshot(t.Context(), func(tx *postgres.Tx) error {
		events, err := outbox.History(t.Context(), tx, "order", order)
		if len(events) != 2 {
			t.Errorf("the history is %+v", events)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// meanwhile runs fn, and returns when it is done, or so many wait for a lock. The
// function that it returns waits for the end.
func (b bench) meanwhile(waiters int, fn func() error) (end func()) {
	b.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	ask := time.NewTicker(5 * time.Millisecond)
	defer ask.Stop()
	for waiting := 0; waiting < waiters && len(done) == 0; <-ask.C {
		b.read(&waiting, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	}
	return func() {
		b.Helper()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

func (b bench) replay(ids ...uuid.UUID) error {
	_, err := outbox.NewOperator(b.db).Replay(b.Context(), ids)
	return err
}

func (b bench) discard(ids ...uuid.UUID) error {
	_, err := outbox.NewOperator(b.db).Discard(b.Context(), ids)
	return err
}

// TestAReplayBringsBackWhatIsBeingAppended while it comes: the appender has seen the
// event failed, and the operator cannot see the appender's.
func TestAReplayBringsBackWhatIsBeingAppended(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := uuid.New()
	first := b.append(order, 1)
	b.fail(first[0])
	second := message(order, 2)
	var replayed func()
	err := b.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := outbox.Append(t.Context(), tx, second); err != nil {
			return err
		}
		replayed = b.meanwhile(1, func() error { return b.replay(first...) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	replayed()
	b.wantDue(0, first[0], second.ID)
}

// TestAnAppendDuringAReplayIsNotParked: the appender still sees the event failed, and
// the one behind it parked. The lock on that one holds the replay up before its commit.
func TestAnAppendDuringAReplayIsNotParked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := uuid.New()
	ids := b.append(order, 1, 2)
	b.fail(ids[0])
	third := message(order, 3)
	var replayed, appended func()
	b.locked(ids[1], func() {
		replayed = b.meanwhile(1, func() error { return b.replay(ids[0]) })
		appended = b.meanwhile(2, func() error {
			return b.db.InTx(t.Context(), func(tx *postgres.Tx) error { return outbox.Append(t.Context(), tx, third) })
		})
	})
	replayed()
	appended()
	b.wantDue(0, ids[0], ids[1], third.ID)
}
