package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// age makes the current slot a year older, and lets the janitor empty a slot at once after a move.
const age = "UPDATE outbox_ring SET since = since - interval '1 year', moved = moved - interval '1 minute'"

func (f fixture) current() int { return f.int("SELECT current FROM outbox_ring") }

// rotateTo rotates until this slot is current.
func (f fixture) rotateTo(slot int, retention time.Duration) {
	f.Helper()
	f.waitFor(func() bool {
		if f.current() == slot {
			return true
		}
		f.exec(age)
		must(f, f.store.Rotate(f.Context(), retention))
		return false
	})
}

// finishLongAgo makes everything that is finished older than each retention.
func (f fixture) finishLongAgo() {
	f.Helper()
	f.exec("UPDATE outbox_published SET published_at = published_at - interval '2 years'")
	f.exec("UPDATE outbox_discarded SET discarded_at = discarded_at - interval '2 years'")
}

// wantSlot checks in which slot the log, the queue and the others have an event.
func (f fixture) wantSlot(id uuid.UUID, want int) {
	f.Helper()
	for _, table := range []string{"outbox_events", "outbox_queue", "outbox_published", "outbox_discarded"} {
		for _, slot := range read[int](f, "SELECT slot FROM "+table+" WHERE id = $1", id) {
			if slot != want {
				f.Errorf("%s has the event in slot %d, want %d", table, slot, want)
			}
		}
	}
	if n := f.int("SELECT count(*) FROM outbox_status WHERE id = $1 AND payload IS NOT NULL", id); n != 1 {
		f.Errorf("the event is %d times in outbox_status with its payload, want once", n)
	}
}

func (f fixture) wantGone(ids ...uuid.UUID) {
	f.Helper()
	for _, id := range ids {
		if n := f.int(`SELECT (SELECT count(*) FROM outbox_events WHERE id = $1) + (SELECT count(*) FROM outbox_published WHERE id = $1)
			+ (SELECT count(*) FROM outbox_discarded WHERE id = $1)`, id); n != 0 {
			f.Errorf("event %s is still there", id)
		}
	}
}

// inEachState appends events of slot 0: two that may go, and five that have to stay.
func (f fixture) inEachState() (old, stay []uuid.UUID) {
	f.Helper()
	ids := f.appendMany(7)
	f.fail(ids[1], ids[4])
	must(f, f.decide(discardSQL, ids[1]))
	f.mark(ids[0])
	f.finishLongAgo()
	f.fail(ids[2], ids[3])
	must(f, f.decide(discardSQL, ids[3]))
	f.mark(ids[5])
	return ids[:2], ids[2:] // failed, discarded, failed, published, pending
}

// TestP1TheRingKeepsWhatIsUnfinishedOrYoung, and forgets the rest.
func TestP1TheRingKeepsWhatIsUnfinishedOrYoung(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old, stay := f.inEachState()
	f.rotateTo(7, 24*time.Hour)
	for _, id := range append(old, stay...) {
		f.wantSlot(id, 0)
	}
	f.rotateTo(0, 24*time.Hour)
	f.wantGone(old...)
	for _, id := range stay {
		f.wantSlot(id, 7)
	}
	f.wantNone("SELECT pg_relation_size('outbox_events_0') + pg_relation_size('outbox_published_0')")
	if payload := read[string](f, "SELECT payload FROM outbox_status WHERE id = $1", stay[4])[0]; payload != `{"a": 1}` {
		t.Errorf("the payload is %q", payload)
	}
}

// TestTheRingTurnsWithTheRetention, whatever the clock was: a time in the future is from a clock
// that was wrong.
func TestTheRingTurnsWithTheRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for since, turns := range map[string]bool{
		"now()": false, "now() - interval '59 minutes'": false, "now() - interval '61 minutes'": true,
		"now() - interval '1 year'": true, "now() + interval '1 year'": true,
	} {
		before := f.current()
		f.exec("UPDATE outbox_ring SET since = " + since)
		must(t, f.store.Rotate(t.Context(), 6*time.Hour))
		if turned := f.current() != before; turned != turns {
			t.Errorf("with %s, the ring turned: %t, want %t", since, turned, turns)
		}
	}
}

// TestAMoveIsFollowedByAPause: somebody may read with a snapshot from before the move, and look for
// the event in its old slot. A clock that was a year ahead does not stop the janitor.
func TestAMoveIsFollowedByAPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	f.rotateTo(7, time.Hour)
	f.exec(age)
	for range 2 {
		must(t, f.store.Rotate(t.Context(), time.Hour))
		f.wantSlot(ids[0], 7)
		if f.current() != 7 || f.int("SELECT pg_relation_size('outbox_events_0')") == 0 {
			t.Error("the slot was emptied at once")
		}
	}
	f.exec("UPDATE outbox_ring SET moved = now() + interval '1 year'")
	must(t, f.store.Rotate(t.Context(), time.Hour))
	if f.current() != 0 {
		t.Error("the ring does not turn")
	}
}

// TestAShorterRetentionIsFollowedAtOnce: from a year to a second.
func TestAShorterRetentionIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	f.mark(ids...)
	for range 3 {
		must(t, f.store.Rotate(t.Context(), 365*24*time.Hour))
	}
	if f.current() != 0 {
		t.Error("the ring turned in the first minute of a year")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.store.RunJanitor(ctx, time.Second) }()
	f.waitFor(func() bool { return f.int("SELECT count(*) FROM outbox_events") == 0 })
	cancel()
	must(t, <-ended)
	f.wantGone(ids...)
}

// TestManyFailedEventsMove, in several batches,
// out of the oldest slot, and can be claimed after a replay.
func TestManyFailedEventsMove(t *testing.T) {
	t.Parallel()
	const n = 2*moveBatch + 1
	f := newFixture(t)
	f.exec(manySQL, "order.failed", n)
	f.exec("UPDATE outbox_queue SET failure_code = 'refused', available_at = 'infinity', failed_at = now()")
	f.rotateTo(7, time.Hour)
	f.rotateTo(0, time.Hour)
	if moved := f.int("SELECT count(*) FROM outbox_events_7"); moved != n {
		t.Errorf("moved %d events, want %d", moved, n)
	}
	f.wantNone("SELECT count(*) FROM outbox_queue q WHERE NOT EXISTS (SELECT FROM outbox_events e WHERE e.slot = q.slot AND e.id = q.id)")
	must(t, f.decide(replaySQL, read[uuid.UUID](f, "SELECT id FROM outbox_queue LIMIT 1000")...))
	if c := f.claim(1000); len(c.Events) != 1000 || len(c.NoPayload) != 0 {
		t.Errorf("claimed %d, lost %d", len(c.Events), len(c.NoPayload))
	}
}

// TestAMarkThatWaitsForTheMove has an older snapshot. It records the event in its new slot.
func TestAMarkThatWaitsForTheMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	f.rotateTo(7, time.Hour)
	var marked func()
	must(t, f.store.withRing(t.Context(), time.Hour, func(tx pgx.Tx, r ring) error {
		_, err := readOne(t.Context(), tx, moveSQL(stayQueuedSQL), args{
			"current": r.Current, "next": r.Next, "after": uuid.Nil, "limit": 10, "retention": 1.0,
		}, func(pgx.CollectableRow) (int, error) { return 0, nil })
		marked = f.startUntilBlocked(1, func() error { f.mark(ids...); return nil })
		return err
	}))
	marked()
	f.wantSlot(ids[0], 7)
	f.wantStatus("published", ids[0])
}

// TestAMarkOfAnEmptiedSlot: the janitor has locked the slot, and finds that an event is being
// marked.
func TestAMarkOfAnEmptiedSlot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	f.rotateTo(7, time.Hour)
	must(t, f.store.InTx(t.Context(), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), markPublishedSQL, args{"ids": IDs(ids)})
		must(t, err)
		f.exec(age)
		if err := f.store.Rotate(t.Context(), time.Hour); err == nil {
			t.Error("emptied a slot whose event is being marked")
		}
		return nil
	}))
	f.wantSlot(ids[0], 0)
	f.wantStatus("published", ids[0])
}

// TestTwoJanitorsDoNotWaitForEachOther, and a ring without its row is an error.
func TestTwoJanitorsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(age)
	f.inTx("SELECT FROM outbox_ring FOR UPDATE", func() { must(t, f.store.Rotate(t.Context(), time.Hour)) })
	if f.current() != 0 {
		t.Error("the ring turned although another janitor has it")
	}
	f.exec("DELETE FROM outbox_ring")
	if err := f.store.Rotate(t.Context(), time.Hour); err == nil {
		t.Error("no error without the row of the ring")
	}
}

// TestP1AJanitorIsKilledAtEachStep: the server ends its session before each statement in turn. The
// next janitor goes on, and nothing is lost.
func TestP1AJanitorIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var left atomic.Int64
	killed := f.with(func(c *pgxpool.Config) { c.ConnConfig.Tracer = killer{f, &left} }).store
	for step, done := int64(1), false; !done; step++ {
		if step > 100 {
			t.Fatal("a rotation has more than 100 statements")
		}
		f.exec("UPDATE outbox_ring SET current = 0")
		old, stay := f.inEachState()
		f.exec("UPDATE outbox_ring SET current = 7") // the slots between are empty
		for _, turn := range []string{"moves", "empties"} {
			f.exec(age)
			left.Store(step)
			err := killed.Rotate(t.Context(), time.Hour)
			done = left.Load() > 0 // there are fewer statements
			if err == nil && !done {
				t.Errorf("killed before statement %d while it %s: no error", step, turn)
			}
			left.Store(0)
			for _, id := range stay {
				f.wantPayload(id)
			}
		}
		f.rotateTo(0, time.Hour)
		f.wantGone(old...)
		f.mark(stay...)
		f.finishLongAgo()
	}
}

// wantPayload checks that the event is there once, with its payload.
func (f fixture) wantPayload(id uuid.UUID) {
	f.Helper()
	if n := f.int("SELECT count(*) FROM outbox_status WHERE id = $1 AND payload = '{\"a\": 1}'", id); n != 1 {
		f.Errorf("event %s is %d times there with its payload", id, n)
	}
}

// killer ends the session of a connection before a statement.
type killer struct {
	f    fixture
	left *atomic.Int64
}

func (k killer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if k.left.Add(-1) == 0 {
		_, err := k.f.pool.Exec(ctx, "SELECT pg_terminate_backend($1, 5000)", conn.PgConn().PID())
		if err != nil && !errors.Is(err, context.Canceled) {
			k.f.Error(err)
		}
	}
	return ctx
}

func (k killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAMarkAfterTheMove records the event where it is now: it was moved while a relay had it, its
// old slot was emptied, and then the mark came, twice.
func TestAMarkAfterTheMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	other := f.appendMany(1)
	f.rotateTo(7, time.Hour)
	c := f.wantClaimed(ids[0], other[0])
	f.rotateTo(0, time.Hour)
	f.appendMany(1)
	for range 2 {
		f.finish(c, ids[0])
		f.wantSlot(ids[0], 7)
	}
	f.wantStatus("published", ids[0])
	f.finishLongAgo()
	f.rotateTo(7, time.Hour)
	f.wantGone(ids[0])
	f.mark(ids[0])
	f.wantGone(ids[0])
	f.mark(other...) // its claim has ended, and it was moved twice
	f.wantStatus("published", other...)
	f.wantSlot(ids[1], 6)
}
