package store

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/internal/dbtest"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(6)
	goleak.VerifyTestMain(m)
}

// fixture is an outbox in a database of its own.
type fixture struct {
	*testing.T
	pool   *pgxpool.Pool
	store  *Store
	random *random
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	pool := dbtest.Migrated(t)
	return fixture{t, pool, New(pool), newRandom()}
}

// with opens the same outbox with another configuration of the pool.
func (f fixture) with(change func(*pgxpool.Config)) fixture {
	f.Helper()
	config := f.pool.Config()
	change(config)
	pool, err := pgxpool.NewWithConfig(f.Context(), config)
	must(f, err)
	f.Cleanup(pool.Close)
	return fixture{f.T, pool, New(pool), f.random}
}

// insertSQL inserts the events that a query returns into the log and the queue, as Append does. The
// query returns id, version, aggregate, aggregate_id, topic and payload. due is the SQL of
// available_at.
func insertSQL(events, due string) string {
	return `
WITH given (id, version, aggregate, aggregate_id, topic, payload) AS (` + events + `), event AS (
  INSERT INTO outbox_events (id, version, aggregate, aggregate_id, topic, payload, content_type)
  SELECT *, 'application/json' FROM given
  RETURNING id, seq, version, aggregate, aggregate_id, topic, octet_length(payload)
)
INSERT INTO outbox_queue (id, seq, version, aggregate, aggregate_id, topic, bytes, available_at)
SELECT *, ` + due + ` FROM event`
}

// oneSQL inserts one event, and manySQL events of aggregates of their own.
var (
	oneSQL  = insertSQL(`SELECT $1::uuid, $2::int, 'order', $3::text, 'order.created', '{"a": 1}'::bytea`, "now()")
	manySQL = insertSQL("SELECT gen_random_uuid(), 1, 'order', gen_random_uuid()::text, $1::text, '{}'::bytea FROM generate_series(1, $2::int)", "now()")
)

// append commits one event for each version of an aggregate, and returns their ids.
func (f fixture) append(aggregate string, versions ...int) (ids []uuid.UUID) {
	f.Helper()
	for _, v := range versions {
		id := uuid.New()
		f.exec(oneSQL, id, v, aggregate)
		ids = append(ids, id)
	}
	return ids
}

// appendMany commits n events of n aggregates.
func (f fixture) appendMany(n int) (ids []uuid.UUID) {
	f.Helper()
	for range n {
		ids = append(ids, f.append(uuid.NewString(), 1)...)
	}
	return ids
}

// appendLater adds n later events to an aggregate that has one.
func (f fixture) appendLater(aggregate string, n int, due string) {
	f.Helper()
	f.exec(insertSQL("SELECT gen_random_uuid(), 1 + i, 'order', $1::text, 'order.created', '{}'::bytea FROM generate_series(1, $2::int) i", due), aggregate, n)
}

// supersede commits an event that supersedes the older ones of its aggregate.
func (f fixture) supersede(aggregate string, version int) uuid.UUID {
	f.Helper()
	id := f.append(aggregate, version)[0]
	f.exec("UPDATE outbox_queue SET supersedes = true WHERE id = $1", id)
	return id
}

const lease = time.Minute

// claim claims until there are events, or until no more are due. It reads from the beginning.
func (f fixture) claim(limit int) Claim {
	f.Helper()
	for {
		f.reset()
		claim, err := f.store.Claim(f.Context(), "test", limit, lease)
		if must(f, err); !claim.More || len(claim.Events) > 0 {
			return claim
		}
	}
}

// reset makes the next claim a full read with all steps, as the first one is.
func (f fixture) reset() {
	f.store.floor.set(found{}, time.Now(), time.Time{})
	f.store.someWait.Store(true)
	f.store.someTopics.Store(true)
}

// events returns what a relay knows of events that it settles.
func (f fixture) events(ids ...uuid.UUID) (events []Event) {
	f.Helper()
	for _, id := range ids {
		e := Event{ID: id}
		err := f.pool.QueryRow(f.Context(), `SELECT aggregate, aggregate_id, supersedes FROM (
			SELECT id, aggregate, aggregate_id, supersedes FROM outbox_queue UNION ALL
			SELECT id, aggregate, aggregate_id, false FROM outbox_events) e
			WHERE id = $1 AND aggregate IS NOT NULL LIMIT 1`, id).Scan(&e.Aggregate, &e.AggregateID, &e.Supersedes)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			f.Error(err)
		}
		events = append(events, e)
	}
	return events
}

// endLeases makes every lease end now. Only the database's clock counts, so a test changes the end
// of the lease, and no clock.
func (f fixture) endLeases() {
	f.Helper()
	f.exec("UPDATE outbox_claims SET until = now()")
}

// endBackOffs makes all delayed events due. Parked events stay parked.
const endBackOffs = "UPDATE outbox_queue SET available_at = now() WHERE available_at < 'infinity'"

// fail claims all due events, fails these, and releases the others.
func (f fixture) fail(ids ...uuid.UUID) {
	f.Helper()
	s := Settlement{Token: f.claim(1000).Token, End: true}
	for _, id := range ids {
		s.Failures = append(s.Failures, Failure{ID: id, Final: true, Code: "refused"})
	}
	if done := f.settle(s); done.Held != len(ids) || len(done.Failed) != len(ids) {
		f.Fatalf("%d of %d held", done.Held, len(ids))
	}
}

// settle settles with the relay's times.
func (f fixture) settle(s Settlement) Settled {
	f.Helper()
	s.FirstPause, s.LongestPause = cmp.Or(s.FirstPause, time.Second), cmp.Or(s.LongestPause, 10*time.Second)
	s.GiveUp = cmp.Or(s.GiveUp, 24*time.Hour)
	done, err := f.store.Settle(f.Context(), s)
	if err != nil {
		f.Error(err)
	}
	return done
}

// mark records events as published, without a claim.
func (f fixture) mark(ids ...uuid.UUID) {
	f.Helper()
	f.settle(Settlement{Published: f.events(ids...)})
}

// finish records events as published, and ends their claim.
func (f fixture) finish(c Claim, published ...uuid.UUID) {
	f.Helper()
	f.settle(Settlement{Token: c.Token, End: true, Published: f.events(published...)})
}

// reschedule writes failures of a claim, and returns how many it still held.
func (f fixture) reschedule(c Claim, failures ...Failure) int {
	f.Helper()
	return f.settle(Settlement{Token: c.Token, Failures: failures}).Held
}

// drain publishes all that is due.
func (f fixture) drain() {
	f.Helper()
	for c := f.claim(1000); len(c.Events) > 0; c = f.claim(1000) {
		f.finish(c, idsOf(c)...)
	}
}

// probe claims one event of a topic whose pause is over.
func (f fixture) probe() Claim {
	f.Helper()
	claim, err := f.store.ClaimProbes(f.Context(), "test", 1, lease)
	if err != nil {
		f.Error(err)
	}
	return claim
}

// endPauses lets the next probe of each topic be due, also of those that a relay tries.
func (f fixture) endPauses() {
	f.Helper()
	f.exec("UPDATE outbox_topics SET until = now() WHERE until < 'infinity'")
}

// What an operator does with failed events.
const (
	replaySQL = `UPDATE outbox_queue SET retry_count = 0, available_at = now(), failure_code = NULL, failure_reason = NULL, failed_at = NULL
		WHERE id = ANY (ARRAY(SELECT id FROM outbox_queue WHERE id = ANY (cast(@ids AS uuid[])) AND failed_at IS NOT NULL ORDER BY id FOR UPDATE))`
	discardSQL = `WITH done AS (
		DELETE FROM outbox_queue WHERE id = ANY (ARRAY(SELECT id FROM outbox_queue WHERE id = ANY (cast(@ids AS uuid[])) AND failed_at IS NOT NULL ORDER BY id FOR UPDATE))
		RETURNING *, 'discarded' AS status)` + RecordSQL
)

// decide replays or discards failed events.
func (f fixture) decide(statement string, ids ...uuid.UUID) error {
	aggregates := Aggregates(f.events(ids...))
	return f.store.InTx(f.Context(), func(tx pgx.Tx) error {
		_, err := tx.Exec(f.Context(), statement, args{"ids": IDs(ids)})
		if err == nil {
			_, err = tx.Exec(f.Context(), PromoteSQL, args{"aggregates": aggregates})
		}
		return err
	})
}

func (f fixture) exec(statement string, values ...any) {
	f.Helper()
	_, err := f.pool.Exec(f.Context(), statement, values...)
	must(f, err)
}

func (f fixture) int(query string, values ...any) int { return read[int](f, query, values...)[0] }

func read[T any](f fixture, query string, values ...any) []T {
	f.Helper()
	found, err := f.pool.Query(f.Context(), query, values...)
	must(f, err)
	all, err := pgx.CollectRows(found, pgx.RowTo[T])
	must(f, err)
	return all
}
