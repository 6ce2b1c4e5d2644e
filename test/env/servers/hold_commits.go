package servers

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/env/check"
)

// HeldCommits are transactions that wait in their COMMIT, until the test releases or
// terminates them.
type HeldCommits struct {
	tb   testing.TB
	conn *pgx.Conn
}

// holdSQL creates a deferred trigger, which runs in COMMIT and waits for a lock.
const holdSQL = `
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON %s
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold();
SELECT pg_advisory_lock(1)`

// HoldCommits holds the COMMIT of transactions that insert into a table, until Release.
func HoldCommits(tb testing.TB, url, table string) *HeldCommits {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	check.Must(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	h := &HeldCommits{tb: tb, conn: conn}
	check.Exec(h.tb, h.conn, fmt.Sprintf(holdSQL, identifier(table)))
	return h
}

// Await waits until a COMMIT is held.
func (h *HeldCommits) Await() {
	h.tb.Helper()
	check.AwaitTrue(h.tb, h.conn, `SELECT count(*) > 0 FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`)
}

// Release lets all commits continue.
func (h *HeldCommits) Release() {
	h.tb.Helper()
	check.Exec(h.tb, h.conn, "SELECT pg_advisory_unlock(1)")
}

// Terminate ends the sessions that wait, as an administrator or a shutdown does.
func (h *HeldCommits) Terminate() {
	h.tb.Helper()
	check.Exec(h.tb, h.conn, `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`)
}

// AwaitEnd waits until all sessions of the database are idle.
func (h *HeldCommits) AwaitEnd() {
	h.tb.Helper()
	check.AwaitTrue(h.tb, h.conn, `SELECT count(*) = 0 FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`)
}
