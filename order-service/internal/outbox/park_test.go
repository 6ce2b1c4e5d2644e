package outbox_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// strandedSQL counts the events that are parked although no older event of their order is left.
const strandedSQL = `SELECT count(*) FROM outbox_queue n
	WHERE available_at = 'infinity' AND failed_at IS NULL AND failure_code IS DISTINCT FROM 'unroutable'
	AND NOT EXISTS (SELECT FROM outbox_queue p WHERE p.aggregate_id = n.aggregate_id AND p.aggregate_version < n.aggregate_version)`

// unparkSQL makes parked events due, as they were when they were appended.
const unparkSQL = "UPDATE outbox_queue SET available_at = now() WHERE failed_at IS NULL"

// TestAClaimParksEventsBehindOneThatIsNotDue, whatever the reason. So the next claims do not read
// them.
func TestAClaimParksEventsBehindOneThatIsNotDue(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{
		"failed":             "status = 'failed', failed_at = now()",
		"delayed":            "available_at = now() + interval '1 hour'",
		"unroutable, parked": "failure_code = 'unroutable', available_at = 'infinity'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.append(uuid.New(), 1, 2, 3)
			f.exec("UPDATE outbox_status SET "+set+" WHERE id = ?", ids[0])
			if got := f.claim(10).Events; len(got) != 0 {
				t.Errorf("claimed %d events out of order", len(got))
			}
			f.wantDue(parked, ids[1:]...)
			unrelated := f.appendMany(1)
			if got := idsOf(f.claim(1)); !slices.Equal(got, unrelated) {
				t.Errorf("claimed %v, want %v", got, unrelated)
			}
		})
	}
}

// TestAClaimParksEventsBehindAClaimedOneOnlyIfTheyAreMany: a claimed event will soon be published,
// so it costs less to leave the next ones due.
func TestAClaimParksEventsBehindAClaimedOneOnlyIfTheyAreMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	ids := f.append(order, 1, 2)
	first := f.claim(10)
	if got := f.claim(10).Events; len(got) != 0 {
		t.Errorf("claimed %d events out of order", len(got))
	}
	f.wantDue(0, ids[1])
	must(t, f.store.MarkPublished(t.Context(), first.Token, idsOf(first)))
	second := f.claim(10)
	if got := idsOf(second); !slices.Equal(got, ids[1:]) {
		t.Errorf("claimed %v, want %v", got, ids[1:])
	}
	crowd := uuid.New()
	f.append(crowd, 1)
	third := f.claim(10)
	f.appendLater(crowd, 250, "now()")
	f.claim(10)
	parkedNow := 0
	f.read(&parkedNow, "SELECT count(*) FROM outbox_queue WHERE available_at = 'infinity'")
	if parkedNow != 250 {
		t.Errorf("%d events are parked, want 250", parkedNow)
	}
	must(t, f.store.MarkPublished(t.Context(), third.Token, idsOf(third)))
	f.wantNone(strandedSQL)
}

// TestNoEventIsParkedBehindOneThatIsBeingDeleted: the transaction that deletes it would not see the
// parked event, and would not make it due.
func TestNoEventIsParkedBehindOneThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append(uuid.New(), 1, 2)
	f.fail(ids[0])
	f.exec(unparkSQL)
	f.withRowLocked(ids[0], func() {
		if c := f.claim(10); len(c.Events) != 0 {
			t.Errorf("claimed %v", idsOf(c))
		}
	})
	f.wantDue(0, ids[1])
}

// TestADeletePromotesAnEventBeingParked: the delete waits for the claim, and then looks for parked
// events.
func TestADeletePromotesAnEventBeingParked(t *testing.T) {
	t.Parallel()
	newFixture(t).wantEventBeingParkedPromoted()
}

// wantEventBeingParkedPromoted deletes an event while a claim parks the next one of its order.
func (f fixture) wantEventBeingParkedPromoted() {
	f.Helper()
	ids := f.append(uuid.New(), 1, 2)
	f.fail(ids[0])
	f.exec(unparkSQL)
	var claimed, marked func()
	f.withPausedWrites("UPDATE ON outbox_queue", func() {
		claimed = f.startUntilBlocked(1, func() error { f.claim(10); return nil })
		marked = f.startUntilBlocked(2, func() error { return f.store.MarkPublished(f.Context(), uuid.Nil, ids[:1]) })
	})
	claimed()
	marked()
	f.wantNone(strandedSQL)
	f.wantDue(0, ids[1])
}

// TestDeletingAnEventMakesTheNextOneDue, and only that one: it still blocks the later events.
func TestDeletingAnEventMakesTheNextOneDue(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(fixture, uuid.UUID) error{
		"Discard": func(f fixture, id uuid.UUID) error { return f.discard(id) },
		"a late confirm": func(f fixture, id uuid.UUID) error {
			return f.store.MarkPublished(f.Context(), uuid.Nil, []uuid.UUID{id})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids, others := f.append(uuid.New(), 1, 2, 3), f.append(uuid.New(), 1, 2)
			f.fail(ids[0], others[0])
			f.claim(10)
			f.wantDue(parked, ids[1], ids[2], others[1])
			must(t, settle(f, ids[0]))
			f.wantDue(0, ids[1])
			f.wantDue(parked, ids[2], others[1])
		})
	}
}

// TestPromoteSkipsFailedUnroutableAndDelayedEvents: they wait for a reason of their own. Only a
// manual change of the table makes such an order.
func TestPromoteSkipsFailedUnroutableAndDelayedEvents(t *testing.T) {
	t.Parallel()
	for set, due := range map[string]float64{
		"status = 'failed', failed_at = now()":                           parked,
		"failure_code = 'unroutable', available_at = 'infinity'":         parked,
		"failure_code = 'refused', available_at = now() + interval '1h'": 3600,
	} {
		f := newFixture(t)
		ids := f.append(uuid.New(), 1, 2)
		f.exec("UPDATE outbox_status SET "+set+" WHERE id = ?", ids[1])
		must(t, f.store.MarkPublished(t.Context(), uuid.Nil, ids[:1]))
		f.wantDue(due, ids[1])
	}
}

// TestShowAndHistoryReadParkedEvents, although no time.Time is infinity.
func TestShowAndHistoryReadParkedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	ids := f.append(order, 1, 2)
	f.fail(ids[0])
	f.claim(10)
	d, err := outbox.NewOperator(f.db).Show(t.Context(), ids[1])
	if err != nil || !d.AvailableAt.IsZero() || !slices.Equal(entryIDs(d.BlockedBy), ids[:1]) {
		t.Errorf("%+v, error %v", d, err)
	}
	err = f.db.InSnapshot(t.Context(), func(tx *postgres.Tx) error {
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

// TestRepairParkedMakesStrandedEventsDue, page by page, and leaves the other parked events.
func TestRepairParkedMakesStrandedEventsDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held, stranded := f.append(uuid.New(), 1, 2), f.append(uuid.New(), 1, 2)
	f.fail(held[0])
	f.exec("UPDATE outbox_queue SET available_at = 'infinity' WHERE failed_at IS NULL")
	repaired, pages := 0, 0
	for after, more := uuid.Nil, true; more; pages++ {
		n, last, err := f.store.RepairParked(t.Context(), after, 1)
		must(t, err)
		repaired, after, more = repaired+n, last, last != uuid.Nil
	}
	if repaired != 1 || pages != 5 {
		t.Errorf("repaired %d in %d pages, want 1 in 5", repaired, pages)
	}
	f.wantDue(parked, held[1], stranded[1])
	f.wantDue(0, stranded[0])
}
