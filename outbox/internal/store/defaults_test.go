package store

import (
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestTheDefaultsOfARoleDoNotMatter in each mode that gets values as text, and in one that does
// not.
func TestTheDefaultsOfARoleDoNotMatter(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			owner := newFixture(t)
			id := owner.append("17", 1)[0]
			f := owner.with(func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
				maps.Copy(c.ConnConfig.RuntimeParams, map[string]string{
					"bytea_output": "escape", "DateStyle": "German", "default_transaction_read_only": "on", "IntervalStyle": "sql_standard",
					"default_transaction_isolation": "serializable", "TimeZone": "Asia/Kathmandu",
				})
			})
			claim, err := f.store.Claim(t.Context(), "w", 10, time.Minute)
			if err != nil || len(claim.Events) != 1 || string(claim.Events[0].Payload) != `{"a": 1}` {
				t.Fatalf("claim %+v, error %v", claim, err)
			}
			f.finish(claim, id)
			must(t, f.store.Rotate(t.Context(), time.Minute))
		})
	}
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
