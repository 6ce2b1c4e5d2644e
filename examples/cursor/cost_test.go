package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// TestAnOldTransactionDoesNotMakeWindowsRereadTheTable has an open transaction that is older than
// 50,000 published events. It looks at what the planner chooses before and after the table's
// statistics are known.
func TestAnOldTransactionDoesNotMakeWindowsRereadTheTable(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec("ALTER TABLE events SET (autovacuum_enabled = false)")
	old := s.begin()
	first := s.addIn(old, uuid.New())
	r := s.lead(50_000)
	s.exec("INSERT INTO events (order_id, version) SELECT gen_random_uuid(), 1 FROM generate_series(1, 50000)")
	if n := len(r.drain()); n != 50_000 {
		t.Fatalf("%d events are published", n)
	}
	for _, prepare := range []string{"SELECT", "ANALYZE events", "VACUUM ANALYZE events"} {
		s.exec(prepare)
		seq := s.add()
		r.wantCheap(prepare, windowSQL, r.older)
		r.wantCheap(prepare, pageSQL, r.older, s.snapshot(), seq-1, 100)
		r.want(seq)
	}
	s.must(old.Commit(t.Context()))
	r.want(first)
}

// wantCheap runs a statement as the reader does, with both kinds of plans that a prepared
// statement can get.
func (r *reader) wantCheap(after, sql string, args ...any) {
	r.s.Helper()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		values := fmt.Sprintf(strings.Repeat(", '%v'", len(args)), args...)[2:]
		r.exec("SET plan_cache_mode = " + mode + "; PREPARE statement AS " + sql)
		if blocks := r.blocks("EXECUTE statement (" + values + ")"); blocks > 50 {
			r.s.Errorf("after %s, with %s: %d blocks, want at most 50: %s", after, mode, blocks, sql)
		} else {
			r.s.Logf("after %s, with %s: %d blocks", after, mode, blocks)
		}
		r.exec("RESET plan_cache_mode; DEALLOCATE statement")
	}
}

func (r *reader) exec(statements string) {
	r.s.Helper()
	_, err := r.db.PgConn().Exec(r.s.Context(), statements).ReadAll()
	r.s.must(err)
}

// blocks returns how many blocks a statement reads.
func (r *reader) blocks(sql string) int {
	r.s.Helper()
	var answer []byte
	explain := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql
	r.s.must(r.db.QueryRow(r.s.Context(), explain, pgx.QueryExecModeSimpleProtocol).Scan(&answer))
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	r.s.must(json.Unmarshal(answer, &plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

func (s *system) snapshot() (snapshot string) {
	s.Helper()
	s.must(s.db.QueryRow(s.Context(), "SELECT pg_current_snapshot()::text").Scan(&snapshot))
	return snapshot
}
