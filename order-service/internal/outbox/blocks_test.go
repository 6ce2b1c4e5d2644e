package outbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// blocks counts the pages of tables and indexes that fn reads, whatever tables there are.
// Unlike a time, it does not depend on what else the machine does.
func (b bench) blocks(fn func(*postgres.DB) error) (n int) {
	b.Helper()
	db, err := postgres.Open(b.Context(), b.url, 1) // a server process has its own counters
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	before := b.blocksSoFar(db)
	if err := fn(db); err != nil {
		b.Fatal(err)
	}
	return b.blocksSoFar(db) - before
}

func (b bench) blocksSoFar(db *postgres.DB) (n int) {
	b.Helper()
	err := db.InTx(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Exec("SELECT pg_stat_force_next_flush()").Error
	})
	if err != nil {
		b.Fatal(err)
	}
	b.read(&n, `SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit
		+ coalesce(toast_blks_read + toast_blks_hit + tidx_blks_read + tidx_blks_hit, 0)) FROM pg_statio_user_tables`)
	return n
}

// manySQL commits events of one key, each of an aggregate of its own.
const manySQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, ?, '{}' FROM generate_series(1, ?)`

// quiet keeps autovacuum away, which would read and change what is measured.
func (b bench) quiet() {
	b.Helper()
	var tables []string
	b.read(&tables, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	for _, table := range tables {
		b.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
	}
}

// vacuum lets the tables use their free pages again.
func (b bench) vacuum() {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.url) // VACUUM cannot be in a transaction
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(b.Context()) }()
	if _, err := conn.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
}

// wantFlat wants the last cost to be at most so many times the first one.
func wantFlat(t *testing.T, what string, times float64, costs []int) {
	t.Helper()
	t.Logf("%s: %v", what, costs)
	if first, last := costs[0], costs[len(costs)-1]; float64(last) > times*float64(first) {
		t.Errorf("%s: %d at first, %d in the end, in all %v", what, first, last, costs)
	}
}
