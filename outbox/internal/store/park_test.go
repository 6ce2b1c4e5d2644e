package store

import (
	"testing"

	"github.com/google/uuid"
)

// strandedSQL counts the events that are parked although no other event of their aggregate holds
// them back.
const strandedSQL = `SELECT count(*) FROM outbox_queue n WHERE ` + parkedSQL + `
	AND NOT EXISTS (SELECT FROM outbox_queue p WHERE p.aggregate_id = n.aggregate_id AND p.version > n.version
		AND supersedes AND (available_at <= now() OR halted))
	AND (supersedes OR NOT EXISTS (SELECT FROM outbox_queue p WHERE p.aggregate_id = n.aggregate_id AND p.version < n.version))`

// haltedForEverSQL counts the halted events whose topic has no row: nothing brings them back.
const haltedForEverSQL = "SELECT count(*) FROM outbox_queue q WHERE halted AND NOT EXISTS (SELECT FROM outbox_topics t WHERE t.topic = q.topic)"

// unparkSQL makes parked events due, as they were when they were appended.
const unparkSQL = "UPDATE outbox_queue SET available_at = now() WHERE failed_at IS NULL"

// TestAClaimParksEventsBehindAClaimedOneOnlyIfTheyAreMany: a claimed event will soon be published,
// so it costs less to leave the next ones due.
func TestAClaimParksEventsBehindAClaimedOneOnlyIfTheyAreMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	first := f.claim(10)
	f.wantClaimed()
	f.wantDue(0, ids[1])
	f.finish(first, idsOf(first)...)
	f.wantClaimed(ids[1])
	crowd := f.append("crowd", 1)
	third := f.claim(10)
	f.appendLater("crowd", 250, "now()")
	f.claim(10)
	if n := f.int("SELECT count(*) FROM outbox_queue WHERE available_at = 'infinity'"); n < 200 {
		t.Errorf("%d events are parked, want all 250", n)
	}
	f.finish(third, crowd...)
	f.wantNone(strandedSQL)
}

// TestNoEventIsParkedBehindOneThatIsBeingDeleted: the transaction that deletes it would not see the
// parked event, and would not make it due.
func TestNoEventIsParkedBehindOneThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	f.fail(ids[0])
	f.exec(unparkSQL)
	f.withRowLocked(ids[0], func() { f.wantClaimed() })
	f.wantDue(0, ids[1])
}

// TestADeletePromotesAnEventBeingParked: the delete waits for the claim, and then looks for parked
// events, whatever the default isolation level is.
func TestADeletePromotesAnEventBeingParked(t *testing.T) {
	t.Parallel()
	f := newFixture(t).repeatableRead()
	ids := f.append("a", 1, 2)
	f.fail(ids[0])
	f.exec(unparkSQL)
	var claimed, marked func()
	f.withPausedWrites("AFTER UPDATE ON outbox_queue FOR EACH ROW", func() {
		claimed = f.startUntilBlocked(1, func() error { f.claim(10); return nil })
		marked = f.startUntilBlocked(2, func() error { f.mark(ids[0]); return nil })
	})
	claimed()
	marked()
	f.wantNone(strandedSQL)
	f.wantDue(0, ids[1])
}

// TestEventsBehindOneThatWaitsAreParked, so that the next claims do not read them. When that one is
// out of the queue, the next one is due, and only that one: it still blocks the later ones.
func TestEventsBehindOneThatWaitsAreParked(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(f fixture, firsts ...uuid.UUID){
		"delayed": func(f fixture, _ ...uuid.UUID) {
			f.exec("UPDATE outbox_queue SET available_at = now() + interval '1 hour' WHERE version = 1")
		},
		"halted": func(f fixture, _ ...uuid.UUID) { f.pause("order.created") },
		"failed": fixture.fail,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids, others := f.append("a", 1, 2, 3), f.append("b", 1, 2)
			wait(f, ids[0], others[0])
			f.wantClaimed()
			f.wantDue(parked, ids[1], ids[2], others[1])
			f.mark(ids[0])
			f.wantDue(0, ids[1])
			f.wantDue(parked, ids[2], others[1])
		})
	}
}

// TestPromoteSkipsFailedHaltedAndDelayedEvents: they wait for a reason of their own. Only a
// manual change of the table makes such an aggregate.
func TestPromoteSkipsFailedHaltedAndDelayedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for set, due := range map[string]float64{
		"available_at = 'infinity', failed_at = now()":                   parked,
		"available_at = 'infinity', halted = true":                       parked,
		"failure_code = 'refused', available_at = now() + interval '1h'": 3600,
	} {
		ids := f.append(set, 1, 2)
		f.exec("UPDATE outbox_queue SET "+set+" WHERE id = $1", ids[1])
		f.mark(ids[0])
		f.wantDue(due, ids[1])
	}
}

// TestPromoteSkipsAnEventThatFailsMeanwhile: it waits for the lock of the next event. When it gets
// it, the event has failed.
func TestPromoteSkipsAnEventThatFailsMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	f.fail(ids[0])
	f.claim(10) // parks the second one
	var marked func()
	f.inTx("UPDATE outbox_queue SET failed_at = now() WHERE version = 2", func() {
		marked = f.startUntilBlocked(1, func() error { f.mark(ids[0]); return nil })
	})
	marked()
	f.wantStatus("failed", ids[1])
}

// TestRepairMakesParkedEventsDue, page by page, and leaves the other parked events.
func TestRepairMakesParkedEventsDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held, stranded := f.append("a", 1, 2), f.append("b", 1, 2)
	f.fail(held[0])
	f.exec("UPDATE outbox_queue SET available_at = 'infinity' WHERE failed_at IS NULL")
	repaired, pages := 0, 0
	for after, more := uuid.Nil, true; more; pages++ {
		n, last, err := f.store.Repair(t.Context(), after, 1)
		must(t, err)
		repaired, after, more = repaired+n, last, last != uuid.Nil
	}
	if repaired != 1 || pages != 5 {
		t.Errorf("repaired %d in %d pages, want 1 in 5", repaired, pages)
	}
	f.wantDue(parked, held[1], stranded[1])
	f.wantDue(0, stranded[0])
}

// TestBacklogReportsTheOldestDueEvent, and what is paused. The row of a dead relay's claim stays
// while no other relay runs, although its lease has ended.
func TestBacklogReportsTheOldestDueEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(1)
	f.claim(10)
	f.exec("UPDATE outbox_queue SET available_at = now() - interval '1 hour'")
	f.appendMany(1)
	f.pause("away")
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason, operator) VALUES ('empty', 'infinity', 0, 'a test', 'somebody')")
	for _, oldest := range []float64{0, 3600} {
		b, err := f.store.Backlog(t.Context(), CountLimit)
		if must(t, err); b.PausedTopics != 2 || b.OldestDue < oldest || b.OldestDue > oldest+100 {
			t.Errorf("%+v, want %g s", b, oldest)
		}
		f.endLeases()
	}
}

func TestABacklogAboveTheLimitIsEstimated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(manySQL, "x", 5000)
	f.exec("VACUUM ANALYZE outbox_queue")
	f.exec(manySQL, "x", 5000)
	for limit, exact := range map[int]bool{10_001: true, 100: false} {
		b, err := f.store.Backlog(t.Context(), limit)
		if must(t, err); exact && b.Pending != 10_000 || b.Pending < 7000 || b.Pending > 13_000 {
			t.Errorf("up to %d: %d pending", limit, b.Pending)
		}
	}
}
