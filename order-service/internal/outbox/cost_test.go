package outbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// blocksRead counts the blocks of all tables and indexes that fn reads. Unlike a duration, the
// number does not depend on what else the machine does.
func (f fixture) blocksRead(fn func(*postgres.DB) error) (n int) {
	f.Helper()
	db, err := postgres.Open(f.Context(), f.url, 1) // a server process has its own counters
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	before := f.totalBlocks(db)
	if err := fn(db); err != nil {
		f.Fatal(err)
	}
	return f.totalBlocks(db) - before
}

func (f fixture) totalBlocks(db *postgres.DB) (n int) {
	f.Helper()
	err := db.InTx(f.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(f.Context()).Exec("SELECT pg_stat_force_next_flush()").Error
	})
	if err != nil {
		f.Fatal(err)
	}
	f.read(&n, `SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit
		+ coalesce(toast_blks_read + toast_blks_hit + tidx_blks_read + tidx_blks_hit, 0)) FROM pg_statio_user_tables`)
	return n
}

// disableAutovacuum keeps autovacuum from reading and changing the measured tables.
func (f fixture) disableAutovacuum() {
	f.Helper()
	var tables []string
	f.read(&tables, "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
	for _, table := range tables {
		f.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
	}
}

// vacuum makes free space in the tables usable again, and updates the statistics.
func (f fixture) vacuum() {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.url) // VACUUM cannot be in a transaction
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = conn.Close(f.Context()) }()
	if _, err := conn.Exec(f.Context(), "VACUUM ANALYZE"); err != nil {
		f.Fatal(err)
	}
}

// wantBoundedGrowth checks that the last cost is at most times the first cost.
func wantBoundedGrowth(t *testing.T, what string, times float64, costs []int) {
	t.Helper()
	t.Logf("%s: %v", what, costs)
	if first, last := costs[0], costs[len(costs)-1]; float64(last) > times*float64(first) {
		t.Errorf("%s: from %d to %d, want at most %g times as many: %v", what, first, last, times, costs)
	}
}
