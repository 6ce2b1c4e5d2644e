package store

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestNoPlanDependsOnStatistics runs every statement of the package with statistics that are wrong:
// of empty tables that are full now, none at all, and of full tables that are empty now. It counts
// the blocks that a statement touches, and not the time: the number does not depend on what else
// the machine does. Each statement is about ten events, so it may touch a few hundred blocks,
// however many events there are. A plan that reads a whole table or index touches thousands.
func TestNoPlanDependsOnStatistics(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(f fixture, plan func()){
		"analysed when empty": func(f fixture, _ func()) {
			f.exec("ANALYZE")
			f.fill(manyEvents)
		},
		"planned when empty": func(f fixture, plan func()) {
			f.exec("ANALYZE")
			plan() // from now on the sessions have their plans
			f.fill(manyEvents)
		},
		"analysed with one event": func(f fixture, _ func()) {
			f.appendMany(1)
			f.exec("ANALYZE")
			f.fill(manyEvents)
		},
		"never analysed": func(f fixture, _ func()) { f.fill(manyEvents) },
		"analysed when full": func(f fixture, _ func()) {
			f.fill(manyEvents)
			f.exec("ANALYZE")
		},
		"analysed when full, then emptied": func(f fixture, _ func()) {
			f.fill(manyEvents)
			f.exec("ANALYZE")
			f.exec("DELETE FROM outbox_queue")
			f.exec("DELETE FROM outbox_claims")
			f.exec("VACUUM (ANALYZE OFF) outbox_queue, outbox_claims")
			f.fill(100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			general, custom := newMeasured(f, "force_generic_plan"), newMeasured(f, "force_custom_plan")
			prepare(f, func() { general.all(t, 10); custom.all(t, 10) })
			general.check(t)
			custom.check(t)
		})
	}
}

const manyEvents = 20_000

// limitOf is how many blocks a statement may touch. Those that park or postpone ten events change
// the most rows and indexes.
func limitOf(statement string) int {
	if statement == "failuresSQL" {
		return 700
	}
	return 500
}

// fill commits events in all states.
func (f fixture) fill(n int) {
	f.Helper()
	f.exec(manySQL, "order.due", n/5)
	f.exec(manySQL, "order.halted", n/5)
	f.exec("UPDATE outbox_queue SET halted = true, available_at = 'infinity' WHERE topic = 'order.halted'")
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason) VALUES ('order.halted', now(), 1, '') ON CONFLICT DO NOTHING")
	f.exec(manySQL, "order.refused", n/5)
	f.exec("UPDATE outbox_queue SET retry_count = 1, refused_since = now(), available_at = now() + interval '1h' WHERE topic = 'order.refused'")
	f.exec(manySQL, "order.failed", n/5)
	f.exec("UPDATE outbox_queue SET failure_code = 'refused', available_at = 'infinity', failed_at = now() WHERE topic = 'order.failed'")
	parent := uuid.NewString()
	f.append(parent, 1)
	f.appendLater(parent, n/5, "'infinity'")
	f.exec(manySQL, "order.published", n/5)
	f.exec(`WITH done AS (DELETE FROM outbox_queue WHERE topic = 'order.published' RETURNING id)
		INSERT INTO outbox_done (id, status, retry_count) SELECT id, 'published', 0 FROM done`)
	f.exec("INSERT INTO outbox_claims (token, worker, until, events) SELECT gen_random_uuid(), 'x', now() + interval '1h', array_agg(id) FROM (SELECT id FROM outbox_queue WHERE topic = 'order.due' ORDER BY seq DESC LIMIT 10) c")
}

// measured is a session that keeps its plans.
type measured struct {
	f        fixture
	plans    string // the setting plan_cache_mode
	conn     *pgxpool.Conn
	prepared map[string]bool
}

func newMeasured(f fixture, plans string) *measured {
	f.Helper()
	conn, err := f.pool.Acquire(f.Context())
	must(f, err)
	f.Cleanup(conn.Release)
	return &measured{f, plans, conn, map[string]bool{}}
}

// check checks that each statement touches few blocks. Those of the catalogs count, too, and a server
// reads its catalogs again after much DDL in any of its databases, as other tests do it. So what
// touches too many is measured again: a wrong plan touches too many each time.
func (m *measured) check(t *testing.T) {
	t.Helper()
	for statement, blocks := range m.all(t, 10) {
		for tries := 0; tries < 2 && blocks > limitOf(statement); tries++ {
			blocks = m.count(t, statement, statements(m.f, 10)[statement])
		}
		t.Logf("%s, %s: %d blocks", m.plans, statement, blocks)
		if limit := limitOf(statement); blocks > limit {
			t.Errorf("%s, %s touches %d blocks, want at most %d", m.plans, statement, blocks, limit)
		}
	}
}

// all counts the blocks of all statements, each in a transaction that is rolled back.
func (m *measured) all(t *testing.T, events int) map[string]int { //nolint:unparam // what the counts are of
	t.Helper()
	blocks := map[string]int{}
	for name, one := range statements(m.f, events) {
		blocks[name] = m.count(t, name, one)
	}
	return blocks
}

func (m *measured) count(t *testing.T, name string, one statement) int {
	t.Helper()
	tx, err := m.conn.Begin(t.Context())
	must(t, err)
	defer func() { must(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), ForgetfulSQL)
	must(t, err)
	// Poolers' modes have no plan to keep. A list of some thousands does not fit into the least
	// work_mem, as one of 150,000 does not fit into the default.
	_, err = tx.Exec(t.Context(), "SET LOCAL work_mem = '64kB'; SET LOCAL plan_cache_mode = "+m.plans)
	must(t, err)
	return m.explain(t, tx, name, one)
}

// explain prepares a statement the first time, so that the server may keep its plan, and counts the
// blocks of an execution.
func (m *measured) explain(t *testing.T, tx pgx.Tx, name string, one statement) (blocks int) {
	t.Helper()
	sql, values, err := one.args.RewriteQuery(t.Context(), m.conn.Conn(), one.sql, nil)
	must(t, err)
	execute := `"` + name + `"`
	if len(values) > 0 {
		var literals []string
		for _, v := range values {
			if at, is := v.(time.Time); is {
				v = at.Format(time.RFC3339)
			}
			literals = append(literals, "'"+strings.ReplaceAll(fmt.Sprint(v), "'", "''")+"'")
		}
		execute += "(" + strings.Join(literals, ", ") + ")"
	}
	if !m.prepared[name] {
		_, err = tx.Exec(t.Context(), `PREPARE "`+name+`" AS `+sql)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m.prepared[name] = true
	}
	var text []byte
	err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "+execute, pgx.QueryExecModeSimpleProtocol).Scan(&text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var plans []struct{ Plan plan }
	must(t, json.Unmarshal(text, &plans))
	return plans[0].Plan.blocks(true)
}

type plan struct {
	Node string  `json:"Node Type"`
	Role string  `json:"Parent Relationship"`
	Rows float64 `json:"Actual Rows"`
	Hit  int     `json:"Shared Hit Blocks"`
	Read int     `json:"Shared Read Blocks"`
	Left float64 `json:"Rows Removed by Filter"`
	Runs float64 `json:"Actual Loops"`
	Kids []plan  `json:"Plans"`
}

// blocks counts those of the plan, and those of the statements in WITH that change rows: they run
// after the plan, unless it reads from them. A row of a table that was read for nothing counts as a
// block.  A row
// that a subplan compares counts as well: NOT IN compares each one if they do not fit into
// work_mem.
func (p plan) blocks(root bool) (n int) {
	if root || p.Node == "ModifyTable" {
		n = p.Hit + p.Read
	}
	if p.Node != "Function Scan" {
		n += int(p.Left * p.Runs)
	}
	if p.Role == "SubPlan" && p.Runs > 1 {
		n += int(p.Rows * p.Runs)
	}
	for _, kid := range p.Kids {
		n += kid.blocks(false)
	}
	return n
}

// statements are all statements of the package, each about some events.
func statements(f fixture, events int) map[string]statement {
	f.Helper()
	ids := read[uuid.UUID](f, "SELECT id FROM outbox_queue ORDER BY available_at, seq LIMIT $1", events)
	failures := []Failure{}
	for _, id := range ids {
		failures = append(failures, Failure{ID: id, Counts: true, Code: "refused"})
	}
	topics := `["order.halted", "order.refused"]`
	tokens := append(read[uuid.UUID](f, "SELECT token FROM outbox_claims LIMIT 1"), uuid.Nil)
	fenced := func(more args) args {
		values := args{"token": tokens[0], "ids": IDs(ids)}
		maps.Copy(values, more)
		return values
	}
	return map[string]statement{
		"ClaimLockSQL": {sql: ClaimLockSQL}, "expireSQL": {sql: expireSQL},
		"settingsSQL": {sql: settingsSQL}, "ForgetfulSQL": {sql: ForgetfulSQL}, "durableSQL": {sql: durableSQL},
		"claimSQL": {sql: claimSQL, args: args{
			"floor": time.Time{}, "wants_first": true, "token": uuid.New(), "worker": "x", "lease": 60.0,
			"limit": events, "bytes": MaxClaimBytes, "look": events, "most": events, "most_paused": events,
		}},
		"claimedEventsSQL": {sql: claimedEventsSQL, args: args{"token": tokens[0]}},
		"markPublishedSQL": {sql: markPublishedSQL, args: args{"ids": IDs(ids)}},
		"supersedeSQL":     {sql: supersedeSQL, args: args{"ids": IDs(ids)}},
		"PromoteSQL":       {sql: PromoteSQL, args: args{"aggregates": Aggregates(f.events(ids...))}},
		"endClaimSQL":      {sql: endClaimSQL, args: args{"token": tokens[0]}},
		"renewSQL":         {sql: renewSQL, args: args{"ids": IDs(tokens), "lease": 60.0}},
		"claimProbesSQL":   {sql: claimProbesSQL, args: args{"token": uuid.New(), "worker": "x", "lease": 60.0, "limit": events, "most": events, "bytes": MaxClaimBytes, "floor": time.Time{}, "halt": maxHalt}},
		"forgetTopicsSQL":  {sql: forgetTopicsSQL},
		"asideSQL":         {sql: asideSQL, args: args{"floor": time.Time{}, "halt": events, "park": events}},
		"bringBackSQL":     {sql: bringBackSQL, args: args{"floor": time.Time{}, "limit": events}},
		"resumeDeletedSQL": {sql: resumeDeletedSQL, args: args{"after": "", "most": events}},
		"pauseSQL": {sql: pauseSQL, args: args{
			"topics": `{"order.halted": "x", "order.new": "x"}`, "first": 1.0, "longest": 10.0, "longer": true,
		}},
		"toHoldSQL":     {sql: toHoldSQL, args: args{"ids": IDs(ids)}},
		"holdSQL":       {sql: strings.Replace(holdSQL, "current_setting('outbox.to_hold')", "cast(@ids AS text)", 1), args: args{"token": uuid.New(), "worker": "x", "ids": IDs(ids)}},
		"HeldSQL":       {sql: HeldSQL, args: args{"token": tokens[0]}},
		"lockEventsSQL": {sql: lockEventsSQL, args: args{"ids": IDs(ids)}},
		"lockTopicsSQL": {sql: lockTopicsSQL},
		"probeAgainSQL": {sql: probeAgainSQL, args: args{"topics": topics}},
		"resumeSQL":     {sql: resumeSQL, args: args{"topics": topics}},
		"failuresSQL": {sql: failuresSQL, args: args{
			"token": tokens[0], "failures": failuresText(failures), "least": 10, "give_up": 86400.0,
		}},
		"haltSQL":        {sql: haltSQL, args: fenced(nil)},
		"repairSQL":      {sql: repairSQL, args: args{"after": uuid.Nil, "limit": events}},
		"backlogSQL":     {sql: backlogSQL, args: args{"limit": events}},
		"lockTimeoutSQL": {sql: lockTimeoutSQL},
		"deleteSQL":      {sql: deleteSQL, args: args{"done_at": time.Time{}, "id": uuid.Nil, "retention": 0.0, "limit": events}},
	}
}

// fragments are parts of other statements.
var fragments = []string{"claimedIDsSQL", "LeasedIDsSQL", "idsSQL", "fenceSQL", "parkedSQL", "stillParkedSQL", "isPausedSQL", "AllPausedSQL", "dueSQL", "nextProbeSQL", "goingSQL", "nextSQL", "nextColumnsSQL", "takeSQL", "RecordSQL", "failureSQL"}

// TestEveryStatementIsMeasured finds the constants of the package whose names end in SQL.
func TestEveryStatementIsMeasured(t *testing.T) {
	t.Parallel()
	measured := statements(newFixture(t), 0)
	names, err := filepath.Glob("*.go")
	must(t, err)
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		for _, declared := range file.Decls {
			values, is := declared.(*ast.GenDecl)
			if !is || values.Tok != token.CONST && values.Tok != token.VAR {
				continue
			}
			for _, spec := range values.Specs {
				name := spec.(*ast.ValueSpec).Names[0].Name
				if !strings.HasSuffix(name, "SQL") || slices.Contains(fragments, name) {
					continue
				}
				if found++; measured[name].sql == "" {
					t.Errorf("%s is not measured", name)
				}
			}
		}
	}
	if found != len(measured) {
		t.Errorf("found %d statements, and %d are measured", found, len(measured))
	}
}
