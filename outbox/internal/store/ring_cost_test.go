package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

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
