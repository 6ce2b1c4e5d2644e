package servertest

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Proxied returns the way to the database at direct through a new proxy.
func Proxied(tb testing.TB, direct string) (p *Proxy, through string) {
	tb.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatal(err)
	}
	p = NewProxy(tb, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}

// HeldCommits are transactions that wait in the middle of their COMMIT, which a test
// can let go on, or break off.
type HeldCommits struct {
	tb   testing.TB
	conn *pgx.Conn
}

// holdSQL makes a deferred trigger wait, that is one that runs in COMMIT.
const holdSQL = `
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON %s
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold();
SELECT pg_advisory_lock(1)`

// HoldCommits holds what inserts into table, in the database at url, until Release.
func HoldCommits(tb testing.TB, url, table string) *HeldCommits {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	h := &HeldCommits{tb: tb, conn: conn}
	h.exec(fmt.Sprintf(holdSQL, identifier(table)))
	return h
}

// Await returns when a commit waits.
func (h *HeldCommits) Await() {
	h.tb.Helper()
	h.await(`SELECT count(*) > 0 FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`)
}

// Release lets all commits go on.
func (h *HeldCommits) Release() {
	h.tb.Helper()
	h.exec("SELECT pg_advisory_unlock(1)")
}

// Terminate ends the sessions that wait, as an administrator or a shutdown does.
func (h *HeldCommits) Terminate() {
	h.tb.Helper()
	h.exec(`SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`)
}

// AwaitEnd returns when none waits any more, and none is still at work.
func (h *HeldCommits) AwaitEnd() {
	h.tb.Helper()
	h.await(`SELECT count(*) = 0 FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`)
}

func (h *HeldCommits) exec(statements string) {
	h.tb.Helper()
	if _, err := h.conn.PgConn().Exec(h.tb.Context(), statements).ReadAll(); err != nil {
		h.tb.Fatal(err)
	}
}

// await asks again and again: there is no way to hear of a lock that is waited for.
func (h *HeldCommits) await(question string) {
	h.tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(sharedTimeout); ; {
		var yes bool
		if err := h.conn.QueryRow(h.tb.Context(), question).Scan(&yes); err != nil {
			h.tb.Fatal(err)
		}
		if yes {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			h.tb.Fatalf("not true for %v: %s", sharedTimeout, question)
		}
	}
}
