package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// TestAnEventWithoutItsRowOfTheLogIsLost: the claim says so, and has the other events.
func TestAnEventWithoutItsRowOfTheLogIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	f.exec("DELETE FROM outbox_events WHERE id = $1", ids[1])
	c := f.wantClaimed(ids[0], ids[2])
	if len(c.NoPayload) != 1 || c.NoPayload[0].ID != ids[1] {
		t.Errorf("lost %v, want %v", c.NoPayload, ids[1])
	}
	if f.reschedule(c, Failure{ID: ids[1], Final: true, Code: "no_payload"}) != 1 {
		t.Error("a lost event cannot be failed")
	}
	f.finish(c, idsOf(c)...)
	f.wantClaimed()
	f.wantStatus("failed", ids[1])
}

// TestALateEventWaitsForAFullReadOnly: its transaction was open for long, so it is due before the
// floor.
func TestALateEventWaitsForAFullReadOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.claim(1)
	f.store.floor.until = time.Now().Add(time.Hour)
	late, soon := f.appendMany(1), f.appendMany(1)
	f.exec("UPDATE outbox_queue SET available_at = now() - interval '1 minute' WHERE id = $1", late[0])
	c, err := f.store.Claim(t.Context(), "from the floor", 10, lease)
	if must(t, err); !slices.Equal(idsOf(c), soon) {
		t.Errorf("claimed %v, want %v", idsOf(c), soon)
	}
	f.wantClaimed(late...)
	if gap := time.Until(f.store.floor.until); gap > floorAge {
		t.Errorf("the next full read is in %v", gap)
	}
}

// TestAHeldSnapshotDoesNotMakeClaimsSlower: it keeps the entries of finished events in the index of
// due events.
func TestAHeldSnapshotDoesNotMakeClaimsSlower(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hold, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	defer func() { must(t, hold.Rollback(context.Background())) }()
	_, err = hold.Exec(t.Context(), "SELECT FROM outbox_queue")
	must(t, err)
	f.exec(insertSQL("SELECT gen_random_uuid(), 1, 'order', gen_random_uuid()::text, 'x', ''::bytea FROM generate_series(1, 20000)", "now() - interval '1 hour'"))
	f.exec("DELETE FROM outbox_queue")
	f.exec(manySQL, "order.created", 100)
	f.claim(1)
	f.store.floor.until = time.Now().Add(time.Hour)
	m := newMeasured(f, "auto")
	values := statements(f, 10)["claimSQL"].args
	values["floor"], values["wants_first"] = f.store.floor.since, false
	tx, err := m.conn.Begin(t.Context())
	must(t, err)
	if n := m.explain(t, tx, "claim", statement{sql: claimSQL, args: values}); n > 500 {
		t.Errorf("a claim touches %d blocks", n)
	}
	must(t, tx.Rollback(t.Context()))
}

// TestAClaimDoesNotWaitForRowLocks: an operator may lock an event for long, and a transaction that
// has appended an event may stay open.
func TestAClaimDoesNotWaitForRowLocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	f.inTx(oneSQL, func() {
		f.withRowLocked(ids[1], func() {
			f.wantClaimed(ids[0])
			f.mark(ids[0])
		})
	}, uuid.New(), 3, "a")
}

// TestLockedRowsDoNotHideOtherAggregates: a mark of a batch waits for one locked row, so the other
// rows of the batch are locked too. The next events of their aggregates can neither be claimed nor
// parked, and they are as many as a claim looks at first.
func TestLockedRowsDoNotHideOtherAggregates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	firsts := f.appendMany(101)
	c := f.claim(1000)
	for _, e := range c.Events {
		f.append(e.AggregateID, 2)
	}
	unrelated := f.appendMany(1)
	var marked func()
	f.withRowLocked(slices.MaxFunc(firsts, compareIDs), func() {
		marked = f.startUntilBlocked(1, func() error { f.finish(c, firsts...); return nil })
		if got, err := f.store.Claim(t.Context(), "x", 10, lease); err != nil || !slices.Equal(idsOf(got), unrelated) {
			t.Errorf("claimed %d, error %v, want only %v", len(got.Events), err, unrelated)
		}
	})
	marked()
}

// TestAClaimReportsThatMoreEventsAreDue than it has taken: the relay claims again at once.
func TestAClaimReportsThatMoreEventsAreDue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(3)
	for _, want := range []bool{true, true, false} {
		c, err := f.store.Claim(t.Context(), "test", 1, lease)
		if must(t, err); c.More != want || len(c.Events) != 1 {
			t.Errorf("claimed %d events, more: %t, want %t", len(c.Events), c.More, want)
		}
	}
}

// TestAClaimIsBoundedInBytes has more large events than fit into one claim. PostgreSQL compresses
// repetitive text, but on the wire it is as long as any other.
func TestAClaimIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const events, size = 100, 200_000
	f := newFixture(t)
	f.exec(insertSQL("SELECT gen_random_uuid(), 1, 'order', gen_random_uuid()::text, 'x', repeat('a', 200000)::bytea FROM generate_series(1, 100)", "now()"))
	for left := events; left > 0; {
		n := 0
		for _, e := range f.claim(events).Events {
			n += len(e.Payload)
		}
		if n == 0 || n > 8<<20+size {
			t.Fatalf("claimed %d bytes, and %d events of %d bytes are due", n, left, size)
		}
		left -= n / size
	}
	f.exec(manySQL, "small", 5000)
	if n := len(f.claim(5000).Events); n != 5000 {
		t.Errorf("claimed %d small events, want 5000", n)
	}
}

// TestAClaimWithManyTopics: of 8,000 topics half are paused; thousands of events of one of these
// are in front of the others; 24,000 events are halted; 400 claims list 800 ids. A claim reads past
// those in front until they are halted, in the order of the index. It never looks at a topic's
// events one by one, and compares no event with each topic or each claimed id.
func TestAClaimWithManyTopics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("ANALYZE outbox_queue, outbox_events")
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason) SELECT 'topic ' || i * 2, now(), 1, '' FROM generate_series(1, 4000) i")
	f.exec(`INSERT INTO outbox_claims (token, worker, until, events) SELECT gen_random_uuid(), 'x', now() + interval '1h', ARRAY(
		SELECT gen_random_uuid() FROM generate_series(1, 2) WHERE n > 0) FROM generate_series(1, 400) n`)
	f.exec("ANALYZE outbox_topics, outbox_claims")
	const of = "SELECT gen_random_uuid(), 1, 'order', gen_random_uuid()::text, 'topic ' || %s, '{}'::bytea FROM generate_series(1, $1::int) i"
	f.exec(insertSQL(fmt.Sprintf(of, "1 + i % 8000"), "now()"), 8000)
	f.exec("UPDATE outbox_queue SET halted = true, available_at = 'infinity' WHERE split_part(topic, ' ', 2)::int % 2 = 0")
	f.exec(insertSQL(fmt.Sprintf(of, "2"), "'infinity'"), manyEvents)
	f.exec("UPDATE outbox_queue SET halted = true WHERE topic = 'topic 2'")
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		m := newMeasured(f, mode)
		for name, blocks := range m.all(t, 10) {
			if about := strings.HasPrefix(name, "claim") || strings.Contains(name, "opics"); about && blocks > 5000 {
				t.Errorf("%s, %s touches %d blocks", mode, name, blocks)
			}
		}
	}
	f.exec(insertSQL(fmt.Sprintf(of, "2"), "now() - interval '1 hour'"), 2*maxHalt)
	for range 2 {
		f.reset() // the claims between full reads halt none of them
		c, err := f.store.Claim(t.Context(), "test", 10, lease)
		if must(t, err); len(c.Events) != 10 || c.Events[0].Topic == "topic 2" {
			t.Fatalf("claimed %d", len(c.Events))
		}
	}
	if c := f.claim(10); len(c.Events) != 10 {
		t.Errorf("claimed %d", len(c.Events))
	}
	f.wantNone("SELECT count(*) FROM outbox_queue WHERE topic = 'topic 2' AND NOT halted")
}

// TestAClaimThatTakesNothingIsNotRepeated: somebody has locked what the first free event ends. The
// next claim ends it, and records its failure.
func TestAClaimThatTakesNothingIsNotRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	older := f.append("a", 1)[0]
	f.reschedule(f.claim(1), Failure{ID: older, Counts: true, Final: true, Code: "refused", Reason: "full"})
	newer := f.supersede("a", 2)
	others := f.appendMany(1)
	f.withRowLocked(older, func() {
		c, err := f.store.Claim(t.Context(), "test", 1, lease)
		if must(t, err); len(c.Events) > 0 || c.More {
			t.Errorf("claimed %d events, more: %t", len(c.Events), c.More)
		}
	})
	f.wantClaimed(newer, others[0])
	f.wantStatus("superseded", older)
	f.wantNone("SELECT count(*) FROM outbox_done WHERE failed_at IS NULL OR (retry_count, failure_code, failure_reason) <> (1, 'refused', 'full')")
}

// TestAClaimSupersedesInParts what would keep the claim lock for long.
func TestAClaimSupersedesInParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.append("a", 1)
	f.appendLater("a", maxSupersede+10, "'infinity'")
	newest := f.supersede("a", maxSupersede+100)
	c, err := f.store.Claim(t.Context(), "test", 10, lease)
	if must(t, err); len(c.Events) != 0 || c.Superseded != maxSupersede || !c.More {
		t.Errorf("claimed %d, %d superseded", len(c.Events), c.Superseded)
	}
	c, err = f.store.Claim(t.Context(), "test", 10, lease)
	must(t, err)
	f.wantEvents(c, newest)
}
