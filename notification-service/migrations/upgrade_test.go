package migrations_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// oldEventsSQL is an outbox of 0.1.0 with an event in each status, in two slots of its ring. The
// aggregate says what is to become of the event.
const oldEventsSQL = `
CREATE FUNCTION pg_temp.id(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT cast(lpad(n::text, 32, '0') AS uuid) $$;
CREATE FUNCTION pg_temp.put(n int, s int, aggregate_id text, v int, topic text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_events (id, slot, version, aggregate, aggregate_id, topic, payload, content_type)
  VALUES (pg_temp.id(n), s, v, 'order', aggregate_id, topic, '{}', 'application/json') $$;
CREATE FUNCTION pg_temp.queue(n int, s int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_queue (id, seq, slot, version, aggregate, aggregate_id, topic, bytes)
  SELECT id, seq, slot, version, aggregate, aggregate_id, topic, 2 FROM outbox_events WHERE id = pg_temp.id(n) AND slot = s $$;

SELECT pg_temp.put(1, 0, 'published', 1, 'sent.test');
SELECT pg_temp.put(2, 0, 'discarded', 1, 'sent.test');
SELECT pg_temp.put(3, 1, 'superseded', 1, 'sent.test');
SELECT pg_temp.put(4, 1, 'published late', 1, 'sent.test'); -- it was discarded, and then confirmed
SELECT pg_temp.put(5, 1, 'moved', 1, 'sent.test'), pg_temp.put(6, 1, 'forgotten', 1, 'sent.test');
INSERT INTO outbox_published (id, slot, published_at) VALUES (pg_temp.id(1), 0, now() - interval '1 day'),
  (pg_temp.id(4), 1, now()), (pg_temp.id(5), 0, now()), (pg_temp.id(5), 1, now());
INSERT INTO outbox_discarded (id, slot, superseded, retry_count, failed_at, failure_code)
VALUES (pg_temp.id(2), 0, false, 3, now(), 'refused'), (pg_temp.id(3), 1, true, 0, NULL, NULL), (pg_temp.id(4), 1, false, 0, NULL, NULL);

SELECT pg_temp.put(n, 1, s, 1, 'sent.test') FROM (VALUES (10, 'pending'), (11, 'delayed'), (13, 'refused'), (14, 'claimed')) e (n, s);
SELECT pg_temp.put(12, 0, 'failed', 1, 'sent.test'), pg_temp.put(15, 1, 'halted', 1, 'away.test'), pg_temp.put(16, 1, 'failed', 2, 'sent.test');
SELECT pg_temp.queue(12, 0);
SELECT pg_temp.queue(n, 1) FROM unnest('{10, 11, 13, 14, 15, 16}'::int[]) n;
UPDATE outbox_queue SET available_at = now() + interval '1 day' WHERE aggregate_id = 'delayed';
UPDATE outbox_queue SET available_at = 'infinity', failed_at = now(), failure_code = 'refused', retry_count = 10 WHERE aggregate_id = 'failed' AND version = 1;
UPDATE outbox_queue SET available_at = 'infinity' WHERE aggregate_id = 'failed' AND version = 2; -- parked
UPDATE outbox_queue SET retry_count = 4, refused_since = now() - interval '1 hour', failure_reason = '451' WHERE aggregate_id = 'refused';
UPDATE outbox_queue SET available_at = 'infinity', halted = true WHERE aggregate_id = 'halted';
INSERT INTO outbox_topics (topic, until, pause, reason, operator) VALUES ('away.test', 'infinity', 0, 'maintenance', 'ann');
INSERT INTO outbox_claims VALUES (gen_random_uuid(), 'still renewed', now() + interval '1 day', ARRAY[pg_temp.id(14)]);

-- Twice in the ring: an id, and a version.
SELECT pg_temp.put(20, 0, 'pending', 7, 'sent.test');
INSERT INTO outbox_published (id, slot) VALUES (pg_temp.id(20), 0);
SELECT pg_temp.put(20, 1, 'id again', 1, 'sent.test'), pg_temp.queue(20, 1);
SELECT pg_temp.put(21, 0, 'version again', 1, 'sent.test'), pg_temp.put(22, 1, 'version again', 1, 'sent.test');
INSERT INTO outbox_published (id, slot, retry_count) VALUES (pg_temp.id(21), 0, 1), (pg_temp.id(22), 1, 2);`

// TestAnOutboxOf010IsUpgraded: each event has its status, and ends as it should, with the rights of
// the service.
func TestAnOutboxOf010IsUpgraded(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	urls, err := server.CreateFor(t.Context(), "../..", "mails", "notification_service")
	check.Must(t, err)
	owner, superuser := open(t, urls.Owner), open(t, server.URL("mails"))
	db := stdlib.OpenDBFromPool(owner)
	first, err := goose.NewProvider(goose.DialectPostgres, db, outbox.Migrations(), goose.WithTableName("outbox_version"))
	check.Must(t, err)
	_, err = first.UpTo(t.Context(), 1)
	check.Must(t, err)
	check.Must(t, db.Close())
	_, err = superuser.Exec(t.Context(), oldEventsSQL, pgx.QueryExecModeSimpleProtocol)
	check.Must(t, err)

	check.Must(t, migrations.Schema.Migrate(t.Context(), urls.Owner))
	application := open(t, urls.Application)
	wantStatuses := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		rows, err := application.Query(t.Context(), `SELECT e.aggregate_id || ' ' || e.version, coalesce(s.status || ' ' || s.retry_count, 'none')
			FROM outbox_events e LEFT JOIN outbox_status s ON s.id = e.id AND s.payload = '{}'`)
		check.Must(t, err)
		for rows.Next() {
			var event, status string
			check.Must(t, rows.Scan(&event, &status))
			got[event] += status
		}
		if check.Must(t, rows.Err()); !maps.Equal(got, want) {
			t.Errorf("the events are %v, want %v", got, want)
		}
	}
	want := map[string]string{
		"published 1": "published 0", "discarded 1": "discarded 3", "superseded 1": "superseded 0", "published late 1": "published 0",
		"moved 1": "published 0", "pending 1": "pending 0", "delayed 1": "pending 0", "failed 1": "failed 10", "failed 2": "pending 0",
		"refused 1": "pending 4", "claimed 1": "pending 0", "halted 1": "pending 0", "id again 1": "pending 0", "version again 1": "published 2",
	}
	wantStatuses(want)

	relay, err := outbox.NewRelay(application, publish.Func(func(context.Context, publish.Message) error { return nil },
		publish.FuncConfig{OneDestination: true, Calls: 1}), outbox.RelayConfig{PollInterval: 20 * time.Millisecond})
	check.Must(t, err)
	start(t, relay.Run)
	operator, by := operate.New(application), operate.NewDecision("ann", operate.CLI, "ids")
	failed, err := operator.List(t.Context(), operate.Filter{Status: operate.Failed}, [16]byte{}, 10)
	check.Must(t, err)
	_, err = operator.Replay(t.Context(), by, operate.IDsOf(failed))
	check.Must(t, err)
	check.Must(t, operator.Resume(t.Context(), by, "away.test"))
	check.Must(t, pgx.BeginFunc(t.Context(), application, func(tx pgx.Tx) error {
		return outbox.Append(t.Context(), tx, outbox.Event{Topic: "sent.test", Aggregate: "order", AggregateID: "new", Version: 1, Payload: []byte("{}")})
	}))
	check.AwaitTrue(t, application, "SELECT count(*) = 1 FROM outbox_queue") // the delayed one
	for event, status := range map[string]string{
		"pending 1": "0", "failed 1": "0", "failed 2": "0", "refused 1": "4", "claimed 1": "0", "halted 1": "0", "id again 1": "0", "new 1": "0",
	} {
		want[event] = "published " + status
	}
	wantStatuses(want)
	check.AwaitTrue(t, application, "SELECT max(seq) = (SELECT seq FROM outbox_events WHERE aggregate_id = 'new') FROM outbox_events")
	check.AwaitTrue(t, application, "SELECT due_since > now() + interval '23 hours' FROM outbox_queue")
}
