package operate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/operate"
)

// modes are pgx's ways to run a query.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// asked are all questions to a large outbox, and the most blocks of tables and indexes that each
// may read. To look for a row takes about 3 blocks. A read of all events along an index takes more
// than 10,000.
var asked = []struct {
	name string
	most int
	ask  func(context.Context, *operate.Operator) (n int, err error)
	want int
}{
	{"groups", 1000, func(ctx context.Context, o *operate.Operator) (int, error) {
		groups, _, err := o.Failures(ctx)
		return len(groups), err
	}, 2},
	{"failed", 600, failed(operate.Filter{}), 50},
	{"failed of a topic", 600, failed(operate.Filter{Topic: "order.created"}), 50},
	{"failed of both", 600, failed(operate.Filter{Topic: "order.created", FailureCode: "refused", Before: failedAt(9000)}), 50},
	{"failed, the newest first", 600, failed(operate.Filter{Newest: true}), 50},
	{"failed, the newest before", 600, failed(operate.Filter{Newest: true, Topic: "order.created", Before: failedAt(9000)}), 50},
	{"list published, the newest first", 1000, list(operate.Filter{Status: operate.Published, Newest: true}), 50},
	{"matching", 100, func(ctx context.Context, o *operate.Operator) (int, error) {
		m, err := o.Matching(ctx, operate.Filter{FailureCode: "refused", Before: failedAt(500)})
		return m.Count, err
	}, 489},
	{"list failed", 500, list(operate.Filter{Status: operate.Failed, Before: failedAt(1 << 20)}), 50},
	{"list pending", 1000, list(operate.Filter{Status: operate.Pending, Topic: "order.created"}), 50},
	{"list published", 1000, list(operate.Filter{Status: operate.Published, Topic: "order.created", Before: failedAt(1 << 30)}), 50},
	{"list in progress", 30, list(operate.Filter{Status: operate.InProgress}), 0},
	{"list superseded", 30, list(operate.Filter{Status: operate.Superseded}), 0},
	{"get", 40, func(ctx context.Context, o *operate.Operator) (int, error) {
		events, err := o.Get(ctx, ninth("p"), ninth("f"))
		return len(events), err
	}, 2},
	{"show", 60, func(ctx context.Context, o *operate.Operator) (int, error) {
		d, err := o.Show(ctx, ninth("f"))
		return d.Version, err
	}, 1},
	{"history", 40, func(ctx context.Context, o *operate.Operator) (int, error) {
		events, err := o.History(ctx, "order", "p9", 100)
		return len(events), err
	}, 1},
	{"topics", 20, func(ctx context.Context, o *operate.Operator) (int, error) {
		topics, err := o.Topics(ctx, "", 10)
		return len(topics), err
	}, 1},
	{"trace", 1200, func(ctx context.Context, o *operate.Operator) (int, error) {
		_, err := o.OfTrace(ctx, "0af7651916cd43dd8448eb211c80319c", 1000)
		if err != nil {
			return 0, nil // operate.ErrNoEvent
		}
		return 1, nil
	}, 0},
	{"republish", 1600, func(ctx context.Context, o *operate.Operator) (n int, err error) {
		w := operate.Window{Since: failedAt(100_000), Until: failedAt(100_001)}
		r, err := o.Republish(ctx, w, uuid.Nil)
		if err != nil {
			return 0, err
		}
		err = r.Each(ctx, func(page []operate.Event) error { n += len(page); return nil })
		return n + r.Total, err
	}, 100},
	{"dry run", 30, func(ctx context.Context, o *operate.Operator) (int, error) {
		r, err := o.DryRun(ctx, operate.Replay, []uuid.UUID{ninth("f")})
		return len(r.Changed), err
	}, 1},
	{"replay", 350, func(ctx context.Context, o *operate.Operator) (int, error) {
		r, err := o.Replay(ctx, ann(), someFailed(ctx, o))
		return len(r.Changed), err
	}, 3},
	{"discard", 350, func(ctx context.Context, o *operate.Operator) (int, error) {
		r, err := o.Discard(ctx, ann(), someFailed(ctx, o))
		return len(r.Changed), err
	}, 3},
}

// ninth is the id of an event that fill has made.
func ninth(kind string) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000009-0000-7000-8000-%012x", kind[0]))
}

func failedAt(n int) time.Time { return time.Unix(1_600_000_000+int64(n), 0) }

func failed(f operate.Filter) func(context.Context, *operate.Operator) (int, error) {
	f.Status = operate.Failed
	return func(ctx context.Context, o *operate.Operator) (int, error) {
		events, err := o.Failed(ctx, f, operate.Cursor{}, 50)
		return len(events), err
	}
}

func list(f operate.Filter) func(context.Context, *operate.Operator) (int, error) {
	return func(ctx context.Context, o *operate.Operator) (int, error) {
		events, err := o.List(ctx, f, uuid.Nil, 50)
		return len(events), err
	}
}

func someFailed(ctx context.Context, o *operate.Operator) []uuid.UUID {
	events, _ := o.Failed(ctx, operate.Filter{FailureCode: "too_large"}, operate.Cursor{}, 3)
	return operate.IDsOf(events)
}

const fillSQL = `
WITH n AS (SELECT generate_series(1, cast($2 AS int)) AS n), event AS (
  INSERT INTO outbox_events (id, version, aggregate, aggregate_id, topic, payload, content_type)
  SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-' || lpad(to_hex(ascii($1)), 12, '0'))::uuid, 1, 'order', $1 || n,
         'order.created', '{}', 'application/json' FROM n
  RETURNING *, ('x' || left(id::text, 8))::bit(32)::int AS n
), published AS (
  INSERT INTO outbox_done (id, status, retry_count, done_at)
  SELECT id, 'published', 0, to_timestamp(CASE WHEN n <= 50 THEN 1600100000 ELSE 1600000000 END) FROM event WHERE $1 = 'p'
)
INSERT INTO outbox_queue (id, seq, version, aggregate, aggregate_id, topic, bytes, available_at, failed_at, failure_code)
SELECT id, seq, CASE WHEN in_order THEN version END, CASE WHEN in_order THEN aggregate END, CASE WHEN in_order THEN aggregate_id END,
       topic, 300, CASE WHEN $1 = 'f' THEN 'infinity' ELSE now() END::timestamptz,
       CASE WHEN $1 = 'f' THEN to_timestamp(1600000000 + n) END,
       CASE WHEN $1 = 'f' THEN CASE WHEN n % 50 = 1 THEN 'too_large' ELSE 'refused' END END
FROM (SELECT *, $1 <> 'f' OR n % 50 <> 1 AS in_order FROM event) event WHERE $1 <> 'p'`

// fill makes n failed, n pending and n published events. Each fiftieth of the failed ones has let
// its order pass. Of the published ones, 50 are a day younger. The statistics are those of an
// outbox with hardly any event.
func (f fixture) fill(n int) {
	f.Helper()
	for _, table := range readAll[string](f, "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'") {
		f.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
	}
	f.publish("now()", f.appendAlone())
	f.fail(f.appendAlone())
	f.finish(false, f.appendAlone())
	f.exec("ANALYZE")
	f.exec("DELETE FROM outbox_queue; DELETE FROM outbox_done; DELETE FROM outbox_events")
	for _, kind := range []string{"f", "q", "p"} {
		f.exec(fillSQL, kind, n)
	}
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason) VALUES ('order.created', 'infinity', 0, 'why')")
}

// TestNoPlanDependsOnStatistics: each statement reads little of a large outbox, also if PostgreSQL
// believes that it is almost empty. And each works in every mode of pgx.
func TestNoPlanDependsOnStatistics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(20_000)
	f.ask("statistics of an empty outbox")
	f.exec("VACUUM ANALYZE")
	f.ask("statistics of a full outbox")
}

// timesIn is how often a question is asked in a mode. In the mode that prepares statements it is
// seven times: from the sixth time on, PostgreSQL may use a general plan.
func timesIn(mode pgx.QueryExecMode) int {
	if mode == pgx.QueryExecModeCacheStatement {
		return 7
	}
	return 1
}

// inEachMode runs a test with a pool for each mode of pgx, which has one connection: each server
// process has counters of its own.
func (f fixture) inEachMode(test func(mode pgx.QueryExecMode, pool *pgxpool.Pool)) {
	f.Helper()
	for _, mode := range modes {
		config := f.pool.Config()
		config.MaxConns, config.ConnConfig.DefaultQueryExecMode = 1, mode
		pool, err := pgxpool.NewWithConfig(f.Context(), config)
		must(f, err)
		defer pool.Close()
		test(mode, pool)
	}
}

// ask asks all questions in each mode of pgx.
func (f fixture) ask(with string) {
	f.Helper()
	f.inEachMode(func(mode pgx.QueryExecMode, pool *pgxpool.Pool) {
		operator := fixtureOf(f.T, pool).operator
		times := timesIn(mode)
		for _, q := range asked {
			before := f.blocks(pool)
			for range times {
				if n, err := q.ask(f.Context(), operator); err != nil || n != q.want {
					f.Fatalf("%s, %s, %s: %d, want %d, error %v", with, mode, q.name, n, q.want, err)
				}
			}
			if blocks := (f.blocks(pool) - before) / times; blocks > q.most {
				f.Errorf("%s, %s, %s reads %d blocks, want at most %d", with, mode, q.name, blocks, q.most)
			}
		}
	})
}

// blocks counts the blocks of all tables and indexes that a pool has read. Unlike a duration, the
// number does not depend on what else the machine does. A session may count up to 10 s later, also
// those of the fixture.
func (f fixture) blocks(pool *pgxpool.Pool) int {
	f.Helper()
	for _, session := range slices.Concat(pool.AcquireAllIdle(f.Context()), f.pool.AcquireAllIdle(f.Context())) {
		_, err := session.Exec(f.Context(), "SELECT pg_stat_force_next_flush()")
		must(f, err)
		session.Release()
	}
	return readAll[int](f, `SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit
		+ coalesce(toast_blks_read + toast_blks_hit + tidx_blks_read + tidx_blks_hit, 0))::int FROM pg_statio_user_tables`)[0]
}

// TestTheRecordIsReadAlongIndexes however many decisions there are, and in every mode of pgx.
func TestTheRecordIsReadAlongIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("ALTER TABLE operator_decisions SET (autovacuum_enabled = off)")
	row := f.decide(ann(), []string{"x"})[0]
	f.exec("ANALYZE")
	f.exec(`INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items, at)
		SELECT gen_random_uuid(), gen_random_uuid(), 'ann', 'cli', 'replay', 'ids', ARRAY[n::text, (n + 1)::text],
		       now() - n * interval '1 minute' FROM generate_series(1, 20000) n`)
	decision := readAll[uuid.UUID](f, "SELECT decision FROM operator_decisions WHERE id = $1", row)[0]
	f.inEachMode(func(mode pgx.QueryExecMode, pool *pgxpool.Pool) {
		log := operate.NewLog(pool)
		for range timesIn(mode) {
			before := f.blocks(pool)
			page, err := log.List(t.Context(), uuid.Nil, 50)
			one, oneErr := log.Get(t.Context(), decision)
			of, ofErr := log.Of(t.Context(), []string{"70", "x"}, 50)
			pruned, pruneErr := log.Prune(t.Context(), 1000*time.Hour, 0)
			must(t, errors.Join(err, oneErr, ofErr, pruneErr))
			if len(page) != 50 || one.Chosen != 1 || len(of) != 3 || pruned != 0 || !slices.Equal(of[0].Items, []string{"x"}) {
				t.Errorf("%s: %d, %+v, %+v, %d", mode, len(page), one, of, pruned)
			}
			if blocks := f.blocks(pool) - before; blocks > 300 {
				t.Errorf("%s: %d blocks, want at most 300", mode, blocks)
			}
		}
		began, err := log.Begin(t.Context(), ann(), operate.Replay, []string{"y", "z"})
		must(t, err)
		must(t, log.Finish(t.Context(), began, 1))
	})
}
