package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func newOutbox(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db, err := open(t.Context(), servers.Database(t))
	check.Must(t, err)
	t.Cleanup(db.Close)
	return db
}

func TestSeqCursorMissesAnEventThatCommitsLate(t *testing.T) {
	t.Parallel()
	db, c := newOutbox(t), newBySeq()
	check.Must(t, commitLate(t.Context(), db, c))
	check.Must(t, c.next(t.Context(), db))
	if !slices.Equal(c.read, []int64{2}) {
		t.Errorf("read %v, want the event 2 without the event 1", c.read)
	}
}

// TestWindowsHaveEachCommittedEventOnce has a transaction that is open in two windows, and then
// writers that take long and roll back.
func TestWindowsHaveEachCommittedEventOnce(t *testing.T) {
	t.Parallel()
	db, c := newOutbox(t), newBySnapshot()
	check.Must(t, commitLate(t.Context(), db, c, c))
	check.Must(t, c.next(t.Context(), db))
	if !slices.Equal(c.read, []int64{2, 1}) {
		t.Errorf("read %v, want the event 2 and then the event 1, each of them once", c.read)
	}
	check.Must(t, race(t.Context(), db, c))
	rows, _ := db.Query(t.Context(), "SELECT seq FROM events ORDER BY seq")
	committed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	check.Must(t, err)
	if len(committed) != 722 {
		t.Errorf("%d events are committed, want 2, and 90 of each of 8 writers", len(committed))
	}
	slices.Sort(c.read)
	if !slices.Equal(c.read, committed) {
		t.Errorf("read %v, want each committed event once: %v", c.read, committed)
	}
}

func TestProgramCountsWhatEachCursorMisses(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	check.Must(t, run(t.Context(), servers.Database(t), &out))
	want := regexp.MustCompile(`^cursor +committed +read +missed +twice
seq > last +722 +\d+ +[1-9]\d* +0
between snapshots +722 +722 +0 +0
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("it prints\n%swant\n%s", &out, want)
	}
}
