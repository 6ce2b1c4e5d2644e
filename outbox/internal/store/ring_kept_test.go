package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestALockedEventKeepsItsSlot: the janitor moves no row that somebody has locked, so it must look
// once more before it empties the slot.
func TestALockedEventKeepsItsSlot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	f.rotateTo(7, time.Hour)
	f.withRowLocked(ids[0], func() {
		for range 3 {
			f.exec(age)
			must(t, f.store.Rotate(t.Context(), time.Hour))
		}
		if f.current() != 7 {
			t.Error("the ring turned to a slot that was not emptied")
		}
		f.wantPayload(ids[0])
	})
	f.rotateTo(0, time.Hour)
	f.wantSlot(ids[0], 7)
	f.wantPayload(ids[0])
}

// TestAnOpenTransactionKeepsItsSlot over several turns, and says who it is. The events of others go
// on, and after it ends its own are published and the slot is emptied.
func TestAnOpenTransactionKeepsItsSlot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.appendMany(1)
	f.mark(old...)
	f.finishLongAgo()
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	tx, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	_, err = tx.Exec(t.Context(), oneSQL, ids[0], 1, "a")
	must(t, err)
	f.rotateTo(7, time.Hour)
	for range 3 {
		f.exec(age)
		err := f.store.Rotate(t.Context(), time.Hour)
		if err == nil || !strings.Contains(err.Error(), "idle in transaction") {
			t.Errorf("error %v, want that it says who holds the lock", err)
		}
	}
	if f.current() != 7 {
		t.Fatal("the ring turned to a slot that was not emptied")
	}
	f.mark(f.appendMany(1)...)
	_, err = tx.Exec(t.Context(), oneSQL, ids[1], 2, "a")
	must(t, err)
	must(t, tx.Commit(t.Context()))
	f.rotateTo(0, time.Hour)
	f.wantSlot(ids[0], 7)
	f.wantGone(old...)
	if got := f.drain(); len(got) != 2 || got[0] != ids[0] || got[1] != ids[1] {
		t.Errorf("published %v, want %v", got, ids)
	}
}

// TestADumpIsConsistentWhileTheRingTurns: it reads with one snapshot, and has locked all tables
// before. The janitor moves events meanwhile, but empties no table.
func TestADumpIsConsistentWhileTheRingTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(3)
	f.rotateTo(7, time.Hour)
	dump, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	must(t, err)
	count := func(query string) (n int) {
		must(t, dump.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	_, err = dump.Exec(t.Context(), "LOCK TABLE outbox_events, outbox_published, outbox_queue IN ACCESS SHARE MODE")
	must(t, err)
	if n := count("SELECT count(*) FROM outbox_queue"); n != 3 {
		t.Fatal(n)
	}
	f.exec(age)
	if must(t, f.store.Rotate(t.Context(), time.Hour)); f.int("SELECT count(*) FROM outbox_events_7") != 3 {
		t.Error("the events are not moved")
	}
	f.exec(age)
	if err := f.store.Rotate(t.Context(), time.Hour); err == nil {
		t.Error("emptied a slot that a dump reads")
	}
	if n := count("SELECT count(*) FROM outbox_status WHERE payload = '{\"a\": 1}'"); n != 3 {
		t.Errorf("the dump has %d events, want 3", n)
	}
	must(t, dump.Rollback(t.Context()))
	f.rotateTo(0, time.Hour)
	if got := f.drain(); len(got) != 3 {
		t.Errorf("published %d", len(got))
	}
}

// publishLongAgo fills the next slot with events that were published longer ago than the retention.
func (f fixture) publishLongAgo(n int) {
	f.Helper()
	f.exec(`INSERT INTO outbox_published_1 (id, slot, published_at)
		SELECT gen_random_uuid(), 1, now() - interval '9 days' FROM generate_series(1, $1::int)`, n)
	f.exec("VACUUM outbox_published_1") // so that the index knows all pages
}

// rowsRead is how many rows of the next slot the only session of the pool has read.
func (f fixture) rowsRead() int {
	f.Helper()
	f.exec("SELECT pg_stat_force_next_flush()")
	return f.int(`SELECT pg_stat_get_tuples_returned(oid) + pg_stat_get_tuples_fetched(oid)
		FROM pg_class WHERE oid = 'outbox_published_1'::regclass`)
}

// TestAnOldSlotIsEmptiedUnread: a slot may have a hundred million events, and a transaction of the
// janitor has 15 s. If it read all of them, it would never end, and the current slot would grow.
func TestAnOldSlotIsEmptiedUnread(t *testing.T) {
	t.Parallel()
	f := newFixture(t).with(func(c *pgxpool.Config) { c.MaxConns = 1 })
	const n = 10_000
	f.publishLongAgo(n)
	before := f.rowsRead()
	must(t, f.store.Rotate(t.Context(), 7*24*time.Hour))
	if read := f.rowsRead() - before; read > n/10 {
		t.Errorf("the janitor has read %d rows of a slot with %d old ones", read, n)
	}
	f.wantNone("SELECT count(*) FROM outbox_published")
}

// TestDiscardedEventsAreForgottenInBatches, while no reader waits: there may be millions of them, a
// transaction of the janitor has 15 s, and each mark of a relay reads the log.
func TestDiscardedEventsAreForgottenInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publishLongAgo(1)
	f.exec(`INSERT INTO outbox_discarded (id, slot, discarded_at, retry_count)
		SELECT gen_random_uuid(), 1, now() - interval '9 days', 0 FROM generate_series(1, $1::int)`, 2*moveBatch+1)
	f.exec(fmt.Sprintf(`CREATE FUNCTION check_batch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM gone) > %d THEN
			RAISE 'too many at once';
		END IF;
		IF EXISTS (SELECT FROM pg_locks WHERE relation = 'outbox_events_1'::regclass AND mode = 'AccessExclusiveLock') THEN
			RAISE 'readers wait';
		END IF;
		RETURN NULL;
	END $$`, moveBatch))
	f.exec(`CREATE TRIGGER check_batch AFTER DELETE ON outbox_discarded REFERENCING OLD TABLE AS gone
		FOR EACH STATEMENT EXECUTE FUNCTION check_batch()`)
	must(t, f.store.Rotate(t.Context(), 7*24*time.Hour))
	f.wantNone("SELECT count(*) FROM outbox_discarded")
}

// TestP4AVanishedJanitorBlocksNobodyForLong: its host may vanish when it has truncated a slot, and
// before the commit. Then no relay can mark an event until the server ends the session.
func TestP4AVanishedJanitorBlocksNobodyForLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	must(t, f.store.withRing(t.Context(), time.Hour, func(tx pgx.Tx, _ ring) error {
		var idle string
		err := tx.QueryRow(t.Context(), "SELECT current_setting('idle_in_transaction_session_timeout')").Scan(&idle)
		if idle != txTimeout.String() {
			t.Errorf("the server ends an idle session after %q, want %s", idle, txTimeout)
		}
		return err
	}))
}
