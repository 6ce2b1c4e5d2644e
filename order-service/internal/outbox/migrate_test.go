package outbox_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

// versionBeforeQueue is the last version of the schema that has one table for everything.
const versionBeforeQueue = 4

// oldEvents has an event in every state of the old schema. The letter identifies the order, the
// digit is the version.
var oldEvents = map[string]string{
	"a1 pending":           "",
	"b1 delayed":           "retry_count = 2, failure_code = 'refused', failure_reason = 'full', available_at = now() + interval '1 hour'",
	"b2 blocked":           "available_at = now() + interval '1 hour'",
	"c1 failed":            "status = 'failed', failed_at = now(), retry_count = 20, failure_code = 'refused', failure_reason = 'full'",
	"c2 parked":            "available_at = 'infinity'",
	"d1 probe":             "failure_code = 'unroutable', available_at = now() + interval '1 hour'",
	"e1 unroutable":        "failure_code = 'unroutable', available_at = 'infinity'",
	"e2 parked":            "available_at = 'infinity'",
	"f1 in progress":       "status = 'in_progress', lease_token = 'f0000000-0000-4000-8000-000000000000', locked_by = 'w', available_at = now() + interval '1 hour'",
	"g1 of the same claim": "status = 'in_progress', lease_token = 'f0000000-0000-4000-8000-000000000000', locked_by = 'w', available_at = now() + interval '1 hour'",
	"g2 blocked":           "",
	"h1 of a dead relay":   "status = 'in_progress', lease_token = 'a0000000-0000-4000-8000-000000000000', locked_by = 'x', available_at = now() - interval '1 hour'",
	"i1 published":         "status = 'published', published_at = now() - interval '1 hour', retry_count = 3",
	"i2 blocked":           "",
	"j1 discarded":         "status = 'discarded', failed_at = now(), retry_count = 20, failure_code = 'too_large', failure_reason = 'no'",
	"j2 blocked":           "",
	"k1 stranded":          "available_at = 'infinity'",
}

// oldOutbox is a database with the schema before the queue, and with oldEvents.
func oldOutbox(t *testing.T) (f fixture, schema *goose.Provider, ids map[string]uuid.UUID) {
	t.Helper()
	url := servers.Database(t)
	config, err := pgx.ParseConfig(url)
	must(t, err)
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	schema, err = goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	must(t, err)
	_, err = schema.UpTo(t.Context(), versionBeforeQueue)
	must(t, err)
	pool, err := postgres.Open(t.Context(), url, 4)
	must(t, err)
	t.Cleanup(pool.Close)
	f, ids = fixture{t, pool, url, outbox.NewStore(pool)}, map[string]uuid.UUID{}
	orders := map[byte]uuid.UUID{}
	for name, set := range oldEvents {
		if _, there := orders[name[0]]; !there {
			orders[name[0]] = uuid.New()
		}
		ids[name] = uuid.New()
		f.exec(`INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
			VALUES (?, 'order', ?, ?, 'order.created', '{"a": 1}')`, ids[name], orders[name[0]], int(name[1]-'0'))
		if set != "" {
			f.exec("UPDATE outbox_events SET "+set+" WHERE id = ?", ids[name])
		}
	}
	return f, schema, ids
}

// TestTheQueueMigrationKeepsEveryEvent has events in every state. They look the same
// afterwards, and a relay publishes each of them once, in order.
func TestTheQueueMigrationKeepsEveryEvent(t *testing.T) {
	t.Parallel()
	f, schema, ids := oldOutbox(t)
	before := f.statuses("outbox_events")
	for i, event := range before {
		if strings.Contains(event, ids["h1 of a dead relay"].String()) {
			before[i] = strings.Replace(event, "in_progress 0 x", "pending 0", 1) // its lease has ended
		}
	}
	_, err := schema.Up(t.Context())
	must(t, err)
	if after := f.statuses("outbox_status"); !slices.Equal(after, before) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}

	f.wantPublished(ids, "a1 pending", "h1 of a dead relay", "i2 blocked", "j2 blocked", "k1 stranded")
	f.endLeases()
	f.wantPublished(ids, "f1 in progress", "g1 of the same claim", "g2 blocked")
	must(t, f.replay(ids["c1 failed"]))
	f.wantPublished(ids, "c1 failed", "c2 parked")
	f.retryUnroutable(10)
	f.wantPublished(ids, "d1 probe", "e1 unroutable", "e2 parked")
	f.exec(endBackOffs)
	f.wantPublished(ids, "b1 delayed", "b2 blocked")
	f.wantNone("SELECT count(*) FROM outbox_queue")
}

// wantPublished publishes all due events. They must be these, and the versions of each order in
// their order.
func (f fixture) wantPublished(ids map[string]uuid.UUID, names ...string) {
	f.Helper()
	var got []string
	for c := f.claim(10); len(c.Events) > 0; c = f.claim(10) {
		for _, e := range c.Events {
			for name, id := range ids {
				if id == e.ID {
					got = append(got, name)
				}
			}
		}
		must(f.T, f.store.MarkPublished(f.Context(), c.Token, idsOf(c)))
	}
	byOrder := func(a, c string) int { return strings.Compare(a[:1], c[:1]) }
	slices.SortStableFunc(got, byOrder)
	if !slices.Equal(got, names) {
		f.Errorf("published %q, want %q", got, names)
	}
}

// TestTheDownMigrationKeepsEveryState, except claims whose lease has ended.
func TestTheDownMigrationKeepsEveryState(t *testing.T) {
	t.Parallel()
	f, schema, _ := oldOutbox(t)
	_, err := schema.Up(t.Context())
	must(t, err)
	f.makePartitions()
	for _, clock := range []time.Duration{-time.Hour, time.Minute, 90 * time.Minute, 10 * time.Hour} {
		f.appendAt(clock)
	}
	before := f.statuses("outbox_status")
	_, err = schema.DownTo(t.Context(), versionBeforeQueue)
	must(t, err)
	if after := f.statuses("outbox_events"); !slices.Equal(after, before) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	_, err = schema.Up(t.Context())
	must(t, err)
	if again := f.statuses("outbox_status"); !slices.Equal(again, before) {
		t.Errorf("after the second migration the events are\n%s", strings.Join(again, "\n"))
	}
	f.appendMany(1)
}

// TestAnOldProgramGetsAnErrorAndLosesNothing during a rolling update.
func TestAnOldProgramGetsAnErrorAndLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	for name, statement := range map[string]string{
		"append": `INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, available_at)
			VALUES (gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', '{}', now())`,
		"claim": "UPDATE outbox_events SET status = 'in_progress'",
		"mark":  "UPDATE outbox_events SET status = 'published', published_at = now()",
		"prune": "DELETE FROM outbox_events WHERE status = 'published'",
	} {
		err := f.db.InTx(t.Context(), func(tx *postgres.Tx) error { return tx.Gorm(t.Context()).Exec(statement).Error })
		if err == nil || !strings.Contains(err.Error(), "42703") {
			t.Errorf("%s: error %v, want that a column is missing", name, err)
		}
	}
	if got := idsOf(f.claim(10)); !slices.Equal(got, ids) {
		t.Errorf("claimed %v, want %v", got, ids)
	}
}
