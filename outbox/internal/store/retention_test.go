package store

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// finishLongAgo makes everything that is finished older than each retention.
func (f fixture) finishLongAgo() {
	f.Helper()
	f.exec("UPDATE outbox_done SET done_at = done_at - interval '2 years'")
}

// deleteFrom deletes what was done more than an hour ago, and returns where the next deletion goes
// on.
func (f fixture) deleteFrom(p place) place {
	f.Helper()
	p, err := f.store.deleteOld(f.Context(), time.Hour, p)
	must(f, err)
	return p
}

// wantThere checks how many of these events are in the log with what became of them.
func (f fixture) wantThere(want int, ids ...uuid.UUID) {
	f.Helper()
	if n := f.int("SELECT count(*) FROM outbox_status WHERE id = ANY ($1) AND payload = '{\"a\": 1}'", ids); n != want {
		f.Errorf("%d of %d events are there with their payload, want %d", n, len(ids), want)
	}
	if n := f.int("SELECT (SELECT count(*) FROM outbox_events WHERE id = ANY ($1)) - (SELECT count(*) FROM outbox_status WHERE id = ANY ($1))", ids); n != 0 {
		f.Errorf("%d events of the log have no status", n)
	}
}

// TestP1TheRetentionKeepsWhatIsUnfinishedOrYoung, and what somebody has put into the queue again.
// It deletes the rest.
func TestP1TheRetentionKeepsWhatIsUnfinishedOrYoung(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(6)
	superseded := f.append("a", 1)[0]
	again := f.appendMany(1)
	f.supersede("a", 2)
	f.fail(ids[0], ids[1], ids[2])
	must(t, f.decide(discardSQL, ids[0]))
	f.mark(ids[3], again[0])
	f.finishLongAgo()
	f.exec(`INSERT INTO outbox_queue (id, seq, topic, bytes) SELECT id, seq, topic, 1 FROM outbox_events WHERE id = $1`, again[0])
	must(t, f.decide(discardSQL, ids[1]))
	f.mark(ids[4])
	f.exec("UPDATE outbox_events SET created_at = created_at - interval '2 years'")
	f.deleteFrom(place{})
	f.wantThere(0, ids[0], ids[3], superseded)
	f.wantThere(4, ids[1], ids[2], ids[4], ids[5]) // discarded, failed, published, pending
	if n := f.int("SELECT count(*) FROM outbox_events WHERE id = $1", again[0]); n != 1 {
		t.Error("the payload of an event of the queue is gone")
	}
	f.wantNone("SELECT count(*) FROM outbox_done WHERE done_at < now() - interval '1 year' AND id NOT IN (SELECT id FROM outbox_queue)")
	f.mark(ids[0]) // a confirm that comes after the retention
	f.wantNone("SELECT count(*) FROM outbox_done d WHERE NOT EXISTS (SELECT FROM outbox_events e WHERE e.id = d.id)")
}

// TestAJanitorDeletesInPages, soon after the retention of a second. While it cannot, it counts
// that, and tries smaller pages.
func TestAJanitorDeletesInPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`WITH log AS (
		INSERT INTO outbox_events (id, topic, payload, content_type) SELECT gen_random_uuid(), 'x', '1', '' FROM generate_series(1, $1::int)
		RETURNING id)
		INSERT INTO outbox_done (id, status, retry_count) SELECT id, 'published', 0 FROM log`, 2*deletePage+1)
	f.exec(`CREATE TABLE pages (size int);
		CREATE FUNCTION note_page() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO pages SELECT count(*) FROM gone;
		RETURN NULL;
	END $$`)
	f.exec("CREATE TRIGGER note_page AFTER DELETE ON outbox_done REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_page()")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var failed atomic.Int64
	f.inTx("SELECT FROM outbox_events LIMIT 1 FOR UPDATE", func() {
		go func() { ended <- f.store.RunJanitor(ctx, time.Second, func() { failed.Add(1) }) }()
		f.waitFor(func() bool { return failed.Load() > 0 })
	})
	f.waitFor(func() bool { return f.int("SELECT count(*) FROM outbox_events") == 0 })
	cancel()
	must(t, <-ended)
	if most, first := f.int("SELECT max(size) FROM pages"), f.int("SELECT size FROM pages LIMIT 1"); most != deletePage || first >= most {
		t.Errorf("a transaction has deleted %d events, and the first one after an error %d, want %d, and less", most, first, deletePage)
	}
	f.wantNone("SELECT count(*) FROM outbox_done")
}

// TestADeletionWaitsForNobody: it leaves what somebody has locked to a later one.
func TestADeletionWaitsForNobody(t *testing.T) {
	t.Parallel()
	for name, locked := range map[string]string{
		"a row of outbox_done": "SELECT FROM outbox_done WHERE id = $1 FOR UPDATE",
		"a row of the log":     "SELECT FROM outbox_events WHERE id = $1 FOR KEY SHARE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.appendMany(2)
			f.mark(ids...)
			f.finishLongAgo()
			f.inTx(locked, func() {
				_, err := f.store.deleteOld(t.Context(), time.Hour, place{})
				if isRow := name == "a row of outbox_done"; isRow != (err == nil) || !isRow && SQLState(err) != "55P03" {
					t.Error(err)
				}
			}, ids[0])
			f.wantThere(1, ids[0])
			p := f.deleteFrom(place{})
			f.wantThere(0, ids...)
			if p.doneAt.IsZero() || time.Since(p.begun) > time.Minute {
				t.Errorf("the next deletion goes on at %+v", p)
			}
			if p.begun = p.begun.Add(-2 * placeAge); !f.deleteFrom(p).doneAt.IsZero() {
				t.Error("after an hour it did not begin at the front")
			}
		})
	}
}

// TestADeletionReadsNoDeadRows, while a dump keeps all that was deleted since it began.
func TestADeletionReadsNoDeadRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.with(func(c *pgxpool.Config) { c.MaxConns = 1 })
	const n = 5000
	f.exec("INSERT INTO outbox_done (id, status, retry_count, done_at) SELECT gen_random_uuid(), 'published', 0, now() - interval '2h' FROM generate_series(1, $1::int)", n)
	dump, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	must(t, err)
	defer func() { must(t, dump.Rollback(t.Context())) }()
	_, err = dump.Exec(t.Context(), "SELECT count(*) FROM outbox_done")
	must(t, err)
	p := one.deleteFrom(place{})
	f.wantNone("SELECT count(*) FROM outbox_done")
	entries := func() int {
		one.exec("SELECT pg_stat_force_next_flush()")
		return one.int("SELECT pg_stat_get_tuples_returned('outbox_done_age'::regclass)")
	}
	before := entries()
	one.deleteFrom(place{})
	front := entries()
	one.deleteFrom(p)
	if again, read := front-before, entries()-front; again < n || read > 10 {
		t.Errorf("from the front a deletion reads %d entries, and from where it was %d", again, read)
	}
}
