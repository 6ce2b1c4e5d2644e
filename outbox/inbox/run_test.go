package inbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/inbox"
)

// makeOlder makes every row older.
func (f fixture) makeOlder(d time.Duration) {
	f.Helper()
	f.exec("UPDATE processed_messages SET processed_at = processed_at - cast($1 AS float8) * interval '1 second'", d.Seconds())
}

func (f fixture) wantPruned(in *inbox.Inbox[message], limit, want int) {
	f.Helper()
	if n, err := in.Prune(f.Context(), limit); err != nil || n != want {
		f.Errorf("pruned %d, want %d: %v", n, want, err)
	}
}

func TestPruneTakesSmallBatchesOfTheConsumersOldRowsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in, other := f.inbox("a", inbox.Retention(time.Hour)), f.inbox("b")
	f.handle(in, newMessages(5)...)
	f.handle(other, newMessages(5)...)
	f.makeOlder(59 * time.Minute)
	f.wantPruned(in, 10, 0)
	f.makeOlder(time.Minute)
	young := newMessages(1)[0]
	f.handle(in, young)
	for _, want := range []int{2, 2, 1, 0} {
		f.wantPruned(in, 2, want)
	}
	f.wantPruned(other, 10, 0)
	f.makeOlder(30*24*time.Hour - 2*time.Hour)
	f.wantPruned(other, 10, 0)
	f.makeOlder(2 * time.Hour)
	f.wantPruned(other, 10, 5)
	if n := f.rows(); n != 1 {
		t.Errorf("%d rows are left, want the young one", n)
	}
}

// TestPruneSparesAMessageThatHasJustComeAgain, and what another replica prunes: it skips locked
// rows.
func TestPruneSparesAMessageThatHasJustComeAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	batch := newMessages(3)
	in := f.inbox("a")
	f.handle(in, batch...)
	f.makeOlder(31 * 24 * time.Hour)
	must(t, pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		first, err := inbox.Record(t.Context(), tx, "a", string(batch[1]))
		if first {
			t.Error("a known message is new")
		}
		f.wantPruned(in, 10, 2)
		return err
	}))
	f.wantPruned(in, 10, 1)
}

func TestRunPrunesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := f.inbox("a")
	f.exec("INSERT INTO processed_messages SELECT 'a', n::text, now() - interval '31 days' FROM generate_series(1, 2500) n")
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	ended := make(chan error)
	go func() { ended <- in.Run(ctx) }()
	for ctx.Err() == nil && f.rows() > 0 {
		continue
	}
	stop()
	must(t, <-ended)
	if n := f.rows(); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestRunRefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, in := range map[string]*inbox.Inbox[message]{
		"a retention of 0":    f.inbox("a", inbox.Retention(0)),
		"a consumer's name":   f.inbox(""),
		"a negative duration": f.inbox("a", inbox.Retention(-time.Second)),
		"a lock timeout of 0": f.inbox("a", inbox.LockTimeout(0)),
	} {
		if err := in.Run(t.Context()); !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, inbox.ErrInvalid)
		}
	}
}

// TestRunSaysThatItCannotPrune, and goes on.
func TestRunSaysThatItCannotPrune(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	said := make(chan string, 10)
	in := f.inbox("a", inbox.Logger(slog.New(slog.NewTextHandler(writer(said), nil))))
	f.pool.Close()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	ended := make(chan error)
	go func() { ended <- in.Run(ctx) }()
	if line := <-said; !strings.Contains(line, "not pruned") {
		t.Errorf("said %q", line)
	}
	stop()
	must(t, <-ended)
}

type writer chan<- string

func (w writer) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// TestPruneReadsTheOldEndOfItsIndex whatever PostgreSQL believes about the table: nothing, that it
// is empty, or the truth.
func TestPruneReadsTheOldEndOfItsIndex(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fill := func() {
		f.exec(`INSERT INTO processed_messages SELECT c, gen_random_uuid()::text, now() - n * interval '1 minute'
			FROM generate_series(1, 20000) n, unnest(ARRAY['a', 'b']) c`)
	}
	f.exec("ALTER TABLE processed_messages SET (autovacuum_enabled = off)")
	fill()
	f.wantCheapPlan("no statistics")
	f.exec("DELETE FROM processed_messages")
	f.exec("VACUUM ANALYZE processed_messages")
	fill()
	f.wantCheapPlan("statistics of an empty table")
	f.exec("ANALYZE processed_messages")
	f.wantCheapPlan("statistics")
}

func (f fixture) wantCheapPlan(name string) {
	f.Helper()
	err := pgx.BeginTxFunc(f.Context(), f.pool, pgx.TxOptions{BeginQuery: inbox.BeginPruneSQL}, func(tx pgx.Tx) error {
		explain := strings.NewReplacer("$1", "'a'", "$2", "864000", "$3", "100").Replace(inbox.PruneSQL)
		rows, _ := tx.Query(f.Context(), "EXPLAIN (ANALYZE, COSTS off, TIMING off) "+explain)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan := strings.Join(lines, "\n")
		for text, want := range map[string]bool{"processed_messages_age": true, "Tid Scan": true, "Seq Scan": false, "Sort": false, "Removed by Filter": false} {
			if strings.Contains(plan, text) != want {
				f.Errorf("%s: %q in the plan: %t\n%s", name, text, !want, plan)
			}
		}
		return err
	})
	if err != nil {
		f.Error(err)
	}
}
