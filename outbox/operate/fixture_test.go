package operate_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/operate"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(6)
	goleak.VerifyTestMain(m)
}

// fixture is an outbox in a database of its own.
type fixture struct {
	*testing.T
	pool     *pgxpool.Pool
	operator *operate.Operator
	log      *operate.Log
	store    *store.Store
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	return fixtureOf(t, dbtest.Migrated(t))
}

func fixtureOf(t *testing.T, pool *pgxpool.Pool) fixture {
	f := fixture{t, pool, operate.New(pool), operate.NewLog(pool), store.New(pool)}
	f.operator.Logger = slog.New(slog.DiscardHandler)
	return f
}

// insertSQL inserts the events of a query into the log and the queue. The query returns their id,
// version, aggregate_id and topic.
func insertSQL(events string) string {
	return `
WITH event AS (
  INSERT INTO outbox_events (id, version, aggregate_id, topic, aggregate, payload, content_type, headers)
  SELECT id, version, aggregate_id, topic, CASE WHEN aggregate_id IS NOT NULL THEN 'order' END,
         '{"a": 1}', 'application/json', '{"h": "text"}'
  FROM (` + events + `) new (id, version, aggregate_id, topic)
  RETURNING *
)
INSERT INTO outbox_queue (id, seq, version, aggregate, aggregate_id, topic, bytes)
SELECT id, seq, version, aggregate, aggregate_id, topic, octet_length(payload) FROM event`
}

// append commits an event for each version of an order, and returns their ids.
func (f fixture) append(order string, versions ...int) (ids []uuid.UUID) {
	f.Helper()
	for _, version := range versions {
		id := uuid.New()
		f.exec(insertSQL("SELECT cast($1 AS uuid), cast($2 AS int), cast($3 AS text), 'order.created'"), id, version, order)
		ids = append(ids, id)
	}
	return ids
}

// appendMany commits n events of n orders, and returns their ids in order.
func (f fixture) appendMany(n int) (ids []uuid.UUID) {
	f.Helper()
	for range n {
		ids = append(ids, f.append(uuid.NewString(), 1)...)
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

// appendAlone commits an event without an aggregate.
func (f fixture) appendAlone() uuid.UUID {
	f.Helper()
	id := uuid.New()
	f.exec(insertSQL("SELECT cast($1 AS uuid), NULL::int, NULL::text, 'report'"), id)
	return id
}

// fail makes events fail an hour ago.
func (f fixture) fail(ids ...uuid.UUID) {
	f.Helper()
	f.exec(`UPDATE outbox_queue SET available_at = 'infinity', failed_at = now() - interval '1 hour', retry_count = 20,
		failure_code = 'refused', failure_reason = 'a queue is full' WHERE id = ANY ($1)`, ids)
}

// superseded is why an event that a newer one has superseded is not replayed.
func (f fixture) superseded(id uuid.UUID) string {
	f.Helper()
	order := readAll[string](f, "SELECT aggregate_id FROM outbox_events WHERE id = $1", id)[0]
	return "is not sent: a newer event of order " + order + " has superseded it"
}

// appendFailed commits events of one order. The first one has failed.
func (f fixture) appendFailed(versions ...int) []uuid.UUID {
	f.Helper()
	ids := f.append(uuid.NewString(), versions...)
	f.fail(ids[0])
	return ids
}

// publish marks events as published; at is SQL.
func (f fixture) publish(at string, ids ...uuid.UUID) {
	f.Helper()
	f.exec(`WITH done AS (DELETE FROM outbox_queue WHERE id = ANY ($1) RETURNING *)
		INSERT INTO outbox_done (id, status, retry_count, done_at) SELECT id, 'published', retry_count, `+at+` FROM done`, ids)
}

// finish ends events without sending them.
func (f fixture) finish(superseded bool, ids ...uuid.UUID) {
	f.Helper()
	f.exec(`WITH done AS (DELETE FROM outbox_queue WHERE id = ANY ($1) RETURNING *)
		INSERT INTO outbox_done (id, status, failed_at, retry_count, failure_code, failure_reason)
		SELECT id, CASE WHEN $2 THEN 'superseded' ELSE 'discarded' END, failed_at, retry_count, failure_code, failure_reason FROM done`, ids, superseded)
}

// claim makes a relay work on events.
func (f fixture) claim(ids ...uuid.UUID) {
	f.Helper()
	f.exec(`INSERT INTO outbox_claims (token, worker, until, events)
		VALUES (gen_random_uuid(), 'worker 1', now() + interval '1 minute', $1)`, ids)
}

func (f fixture) exec(statement string, args ...any) {
	f.Helper()
	conn, err := f.pool.Acquire(f.Context())
	must(f, err)
	defer conn.Release()
	_, err = conn.Exec(f.Context(), statement, args...)
	must(f, err)
	// Counts the statement's blocks now, and not in a measurement that begins later.
	_, err = conn.Exec(f.Context(), "SELECT pg_stat_force_next_flush()")
	must(f, err)
}

func readAll[T any](f fixture, query string, args ...any) []T {
	f.Helper()
	rows, err := f.pool.Query(f.Context(), query, args...)
	must(f, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	must(f, err)
	return found
}

func (f fixture) count(query string) int {
	f.Helper()
	return readAll[int](f, "SELECT count(*)::int FROM "+query)[0]
}

// rows returns all about these events, as text.
func (f fixture) rows(ids ...uuid.UUID) []string {
	f.Helper()
	return readAll[string](f, "SELECT to_jsonb(o)::text FROM outbox_status o WHERE id = ANY ($1) ORDER BY id", ids)
}

// due returns the ids of the events that a relay gets now.
func (f fixture) due() (ids []uuid.UUID) {
	f.Helper()
	for {
		c, err := f.store.Claim(f.Context(), "test", 10, time.Minute)
		must(f, err)
		for _, e := range c.Events {
			ids = append(ids, e.ID)
		}
		f.settle(store.Settlement{Token: c.Token, End: true})
		if !c.More || len(ids) > 0 {
			return ids
		}
	}
}

func (f fixture) settle(s store.Settlement) {
	f.Helper()
	_, err := f.store.Settle(f.Context(), s)
	must(f, err)
}

// ann returns a decision of the operator of all tests.
func ann() operate.By { return operate.NewDecision("ann", operate.CLI, operate.ByIDs) }

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

var must = dbtest.Must // many lines have it
