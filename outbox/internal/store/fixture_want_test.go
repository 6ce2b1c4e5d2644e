package store

import (
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// wantNone checks that a query counts no rows.
func (f fixture) wantNone(query string) {
	f.Helper()
	if n := f.int(query); n != 0 {
		f.Errorf("%d rows, want none, of %s", n, query)
	}
}

// parked is the time until a parked or failed event is due: available_at is infinity.
var parked = math.Inf(1)

// wantDue checks that each event is due in this many seconds, or up to a minute earlier.
func (f fixture) wantDue(seconds float64, ids ...uuid.UUID) {
	f.Helper()
	for i, id := range ids {
		got := read[float64](f, "SELECT extract(epoch FROM available_at)::float8 - extract(epoch FROM now())::float8 FROM outbox_queue WHERE id = $1", id)[0]
		if early := seconds - got; math.IsInf(got, 1) != math.IsInf(seconds, 1) || early < 0 || early > 60 {
			f.Errorf("event %d is due in %g s, want %g", i+1, got, seconds)
		}
	}
}

// wantStatus checks the status of each event.
func (f fixture) wantStatus(want string, ids ...uuid.UUID) {
	f.Helper()
	for i, id := range ids {
		const statusSQL = "SELECT coalesce(string_agg(status, ' and '), 'nowhere') FROM outbox_status WHERE id = $1"
		if got := read[string](f, statusSQL, id)[0]; got != want {
			f.Errorf("event %d is %s, want %s", i+1, got, want)
		}
	}
}

func (f fixture) wantClaimed(want ...uuid.UUID) Claim {
	f.Helper()
	c := f.claim(1000)
	f.wantEvents(c, want...)
	return c
}

func (f fixture) wantEvents(c Claim, want ...uuid.UUID) {
	f.Helper()
	if got := idsOf(c); !slices.Equal(got, want) {
		f.Errorf("claimed %v, want %v", got, want)
	}
}

func idsOf(c Claim) (ids []uuid.UUID) {
	for _, e := range c.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func must(t interface{ Fatal(args ...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// inTx runs fn while a transaction of its own is open that has executed the statement.
func (f fixture) inTx(statement string, fn func(), values ...any) {
	f.Helper()
	must(f, f.store.InTx(f.Context(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.Context(), statement, values...); err != nil {
			return err
		}
		fn()
		return nil
	}))
}

func (f fixture) withRowLocked(id uuid.UUID, fn func()) {
	f.Helper()
	f.inTx("SELECT 1 FROM outbox_queue WHERE id = $1 FOR UPDATE", fn, id)
}

// withPausedWrites makes each write of one kind, such as "AFTER INSERT ON outbox_claims FOR EACH
// ROW", wait inside its statement until fn returns.
func (f fixture) withPausedWrites(what string, fn func()) {
	f.Helper()
	f.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_advisory_xact_lock(1);
		RETURN NULL;
	END $$`)
	f.exec("CREATE TRIGGER wait " + what + " EXECUTE FUNCTION wait()")
	f.inTx("SELECT pg_advisory_xact_lock(1)", fn)
}

// startUntilBlocked starts fn. It returns when fn has ended, or when as many statements as waiters
// wait for a lock. The function that it returns waits until fn ends.
func (f fixture) startUntilBlocked(waiters int, fn func() error) (end func()) {
	f.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	f.waitFor(func() bool {
		return len(done) > 0 || f.int("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") >= waiters
	})
	return func() {
		f.Helper()
		if err := <-done; err != nil {
			f.Error(err)
		}
	}
}

// waitFor waits until a condition holds.
func (f fixture) waitFor(condition func() bool) {
	f.Helper()
	dbtest.Await(f, "what the test waits for", condition)
}
