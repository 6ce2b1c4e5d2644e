package outbox_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an outbox in a database of its own. A test can write to the view outbox_status.
type fixture struct {
	*testing.T
	db    *postgres.DB
	url   string
	store *outbox.Store
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, url := servers.Migrated(t, postgres.Migrations{Files: migrations.Files})
	f := fixture{t, db, url, outbox.NewStore(db)}
	f.exec(servers.WritableOutboxView)
	return f
}

func message(aggregate uuid.UUID, version int) outbox.Message {
	return outbox.Message{
		ID: uuid.New(), AggregateType: "order", AggregateID: aggregate, AggregateVersion: version,
		EventKey: "order.created", Payload: []byte(`{"a": 1}`),
	}
}

// insertSQL inserts the events that a query returns into the log and the queue. The query returns
// the columns that an event must have. due is the SQL of available_at.
func insertSQL(events, due string) string {
	return `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
  ` + events + `
  RETURNING id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, payload
)
INSERT INTO outbox_queue (id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, bytes, available_at)
SELECT id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, octet_length(payload::text), ` + due + ` FROM event`
}

// appendManySQL commits events of one key, each of an order of its own.
var appendManySQL = insertSQL("SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, ?, '{}' FROM generate_series(1, ?)", "now()")

// append commits one event for each version of an order, and returns their ids.
func (f fixture) append(aggregate uuid.UUID, versions ...int) (ids []uuid.UUID) {
	f.Helper()
	var events []outbox.Message
	for _, v := range versions {
		m := message(aggregate, v)
		events, ids = append(events, m), append(ids, m.ID)
	}
	f.commit(events)
	return ids
}

func (f fixture) commit(events []outbox.Message) {
	f.Helper()
	err := f.db.InTx(f.Context(), func(tx *postgres.Tx) error {
		for _, m := range events {
			if err := outbox.Append(f.Context(), tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// appendMany commits n events of n orders.
func (f fixture) appendMany(n int) (ids []uuid.UUID) {
	f.Helper()
	for range n {
		ids = append(ids, f.append(uuid.New(), 1)...)
	}
	return ids
}

// appendLater adds n later events to an order that has one.
func (f fixture) appendLater(aggregate uuid.UUID, n int, due string) {
	f.Helper()
	f.exec(insertSQL("SELECT gen_random_uuid(), 'order', cast(? AS uuid), 1 + i, 'order.created', '{}' FROM generate_series(1, ?) i", due), aggregate, n)
}

// appendFailed commits events of one order. The first one failed an hour ago.
func (f fixture) appendFailed(versions ...int) []uuid.UUID {
	f.Helper()
	ids := f.append(uuid.New(), versions...)
	f.exec(`UPDATE outbox_status SET status = 'failed', retry_count = 20, failure_code = 'refused',
		failure_reason = 'a queue is full', failed_at = now() - interval '1 hour',
		available_at = now() + interval '1 hour' WHERE id = ?`, ids[0])
	return ids
}

const lease = time.Minute

// claim claims until there are events, or until no more are due.
func (f fixture) claim(limit int) outbox.Claim {
	f.Helper()
	for {
		claim, err := f.store.Claim(f.Context(), "test", limit, lease)
		if err != nil {
			f.Fatal(err)
		}
		if !claim.More || len(claim.Events) > 0 {
			return claim
		}
	}
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
	c := f.claim(1000)
	for _, id := range ids {
		if _, held, err := f.store.Fail(f.Context(), c.Token, outbox.Failure{ID: id, Code: "refused"}); held != 1 || err != nil {
			f.Fatalf("%d held, error %v", held, err)
		}
	}
	if _, err := f.store.Release(f.Context(), c.Token); err != nil {
		f.Fatal(err)
	}
}

// ann is the operator of all tests.
var ann = audit.New("ann", audit.CLI, audit.ByIDs)

func (f fixture) replay(ids ...uuid.UUID) error {
	_, err := outbox.NewOperator(f.db).Replay(f.Context(), ann, ids)
	return err
}

func (f fixture) discard(ids ...uuid.UUID) error {
	_, err := outbox.NewOperator(f.db).Discard(f.Context(), ann, ids)
	return err
}

// unsettled counts the events that are neither published nor discarded.
func (f fixture) unsettled() (n int) {
	f.Helper()
	f.read(&n, "SELECT count(*) FROM outbox_status WHERE status NOT IN ('published', 'discarded')")
	return n
}

func (f fixture) exec(statement string, args ...any) {
	f.Helper()
	err := f.db.InTx(f.Context(), func(tx *postgres.Tx) error {
		// Counts the statement's blocks now, and not in the next measurement.
		flush := tx.Gorm(f.Context()).Exec("SELECT pg_stat_force_next_flush()").Error
		return errors.Join(flush, tx.Gorm(f.Context()).Exec(statement, args...).Error)
	})
	if err != nil {
		f.Fatal(err)
	}
}

func (f fixture) read(into any, query string, args ...any) {
	f.Helper()
	err := f.db.InSnapshot(f.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(f.Context()).Raw(query, args...).Scan(into).Error
	})
	if err != nil {
		f.Fatal(err)
	}
}

// row is what most tests compare.
type row struct {
	Status       string
	RetryCount   int
	FailureCode  string
	DueInSeconds float64
}

func (f fixture) row(id uuid.UUID) (r row) {
	f.Helper()
	f.read(&r, `SELECT status, retry_count, coalesce(failure_code, '') AS failure_code,
		extract(epoch FROM available_at)::float8 - extract(epoch FROM now())::float8 AS due_in_seconds FROM outbox_status WHERE id = ?`, id)
	return r
}

// statuses is the status of each event, as the API and the operators see it.
func (f fixture) statuses(table string) (events []string) {
	f.Helper()
	f.read(&events, `SELECT concat_ws(' ', seq, id, status, retry_count, locked_by, failure_code, failure_reason, published_at, failed_at)
		FROM `+table+` ORDER BY seq`)
	return events
}

// wantNone checks that a query counts no rows.
func (f fixture) wantNone(query string) {
	f.Helper()
	var n int
	if f.read(&n, query); n != 0 {
		f.Errorf("%d rows, want none, of %s", n, query)
	}
}

// parked is the time until a parked or failed event is due: available_at is infinity.
var parked = math.Inf(1)

// wantDue checks that each event is due in this many seconds, or up to a minute earlier.
func (f fixture) wantDue(seconds float64, ids ...uuid.UUID) {
	f.Helper()
	for i, id := range ids {
		got := f.row(id).DueInSeconds
		if early := seconds - got; math.IsInf(got, 1) != math.IsInf(seconds, 1) || early < 0 || early > 60 {
			f.Errorf("event %d is due in %g s, want %g", i+1, got, seconds)
		}
	}
}

func idsOf(c outbox.Claim) (ids []uuid.UUID) {
	for _, e := range c.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

func entryIDs(entries []outbox.Entry) (ids []uuid.UUID) {
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func must(t interface{ Fatal(args ...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
