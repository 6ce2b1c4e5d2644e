package migrations_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/notification-service/internal/effect"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// TestTheRoleOfTheServiceMayDoItsWorkAndNothingElse runs each part of the service as its role: the
// handler, the relay with its janitor, and what operators do. Each part goes on without a right, and
// its log says so.
func TestTheRoleOfTheServiceMayDoItsWorkAndNothingElse(t *testing.T) { //nolint:paralleltest // it sets the process's logger
	superuser, application := roles(t)
	logged := &bytes.Buffer{} // it is read when all parts have ended
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logged, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })

	answers := map[string]error{"refused.test": errors.New("451 later"), "invalid.test": fmt.Errorf("%w: no such user", publish.ErrInvalid)}
	server := publish.Func(func(_ context.Context, m publish.Message) error { return answers[m.Topic] }, publish.FuncConfig{OneDestination: true, Calls: 1})
	relay, err := outbox.NewRelay(application, server, outbox.RelayConfig{
		DurableMarks: true, SettleAfter: time.Microsecond, PollInterval: 20 * time.Millisecond,
		RetryCap: time.Second, NoAnswerPauses: []time.Duration{time.Minute},
	})
	check.Must(t, err)
	handler := effect.NewHandler(application, effect.Config{
		Consumer: "notification-service", InboxRetention: time.Hour, DefaultRecipient: "guest@shop.test", Wake: relay.Wake,
	}, effect.NewMetrics(prometheus.NewRegistry()))
	decisions := operate.NewLog(application)

	// The inbox gets an old message. The janitor gets three old e-mails: one was sent, one was
	// discarded, and one has failed, which it keeps.
	operator, by := operate.New(application), operate.NewDecision("ann", operate.CLI, "--all")
	order, first, discarded := uuid.New(), event(uuid.New(), 1, "sent.test"), event(uuid.New(), 1, "invalid.test")
	check.Must(t, handler.Handle(t.Context(), []rabbitmq.Message{first, discarded, event(order, 1, "invalid.test")}))
	stop := start(t, relay.Run)
	check.AwaitTrue(t, application, "SELECT count(*) = 1 FROM outbox_done WHERE status = 'published'")
	check.AwaitTrue(t, application, "SELECT count(*) = 2 FROM outbox_status WHERE status = 'failed'")
	stop()
	_, err = operator.Discard(t.Context(), by, []uuid.UUID{uuid.MustParse(discarded.ID)})
	check.Must(t, err)
	check.AwaitTrue(t, application, "SELECT count(*) = 2 FROM outbox_done")
	check.Exec(t, superuser, "UPDATE processed_messages SET processed_at = now() - interval '2 hours'")
	check.Exec(t, superuser, "UPDATE outbox_done SET done_at = now() - interval '8 days'")
	check.Exec(t, superuser, "UPDATE outbox_events SET created_at = now() - interval '8 days'")

	stop = start(t, relay.Run, handler.Run, func(ctx context.Context) error { return decisions.Run(ctx, 24*time.Hour) })
	check.AwaitTrue(t, application, "SELECT count(*) = 0 FROM processed_messages") // pruned
	check.AwaitTrue(t, application, "SELECT count(*) = 0 FROM outbox_done")
	check.AwaitTrue(t, application, "SELECT array_agg(status) = '{failed}' FROM outbox_status JOIN outbox_events USING (id)")
	late := first // it was forgotten
	check.Must(t, handler.Handle(t.Context(), []rabbitmq.Message{late}))
	check.Must(t, handler.Handle(t.Context(), []rabbitmq.Message{
		late, event(order, 2, "sent.test"), event(uuid.New(), 1, "refused.test"), event(uuid.New(), 1, "refused.test"),
	}))
	if _, err := handler.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	check.AwaitTrue(t, application, "SELECT count(*) = 1 FROM outbox_done WHERE status = 'published'")
	check.AwaitTrue(t, application, "SELECT count(*) = 1 FROM outbox_topics WHERE topic = 'refused.test'")

	failed, err := operator.List(t.Context(), operate.Filter{Status: operate.Failed}, uuid.Nil, 10)
	check.Must(t, err)
	for _, decide := range []func(context.Context, operate.By, []uuid.UUID) (operate.Result, error){operator.Replay, operator.Discard} {
		_, err := decide(t.Context(), by, operate.IDsOf(failed))
		check.Must(t, err)
	}
	check.Must(t, errors.Join(operator.Pause(t.Context(), by, "sent.test", "maintenance"), operator.Resume(t.Context(), by, "sent.test")))
	stop()

	if text := logged.String(); strings.Contains(text, "SQLSTATE 42501") { // the number alone may be part of an id or a port
		t.Errorf("the role lacks a right:\n%s", text)
	}
	for _, statement := range forbidden {
		if err := rolledBack(t, application, statement); !isDenied(err) {
			t.Errorf("the role may %s: %v", statement, err)
		}
		if err := rolledBack(t, superuser, statement); err != nil {
			t.Errorf("a superuser cannot %s, so the test proves nothing: %v", statement, err)
		}
	}
}

// TestTheTablesOfAnOlderVersionAreRefused with one sentence, and stay as they are.
func TestTheTablesOfAnOlderVersionAreRefused(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	pool := open(t, url)
	check.Exec(t, pool, "CREATE TABLE notifications ()")
	if err := migrations.Schema.Migrate(t.Context(), url); err == nil || !strings.Contains(err.Error(), "docker compose down -v") {
		t.Error(err)
	}
	check.AwaitTrue(t, pool, "SELECT count(*) = 1 FROM pg_tables WHERE schemaname = 'public'")
}

// forbidden is what the role must not do. test/system has what no service may do.
var forbidden = []string{
	"UPDATE processed_messages SET message_id = gen_random_uuid()::text",
	"INSERT INTO processed_messages VALUES ('a', 'b', now())",
	"TRUNCATE processed_messages",
	"UPDATE order_progress SET order_id = gen_random_uuid()",
	"DELETE FROM order_progress",
	"DROP TABLE order_progress",
	"UPDATE outbox_events SET payload = '{}'",
	"UPDATE outbox_events SET topic = 'example.com'",
	"UPDATE outbox_events SET id = gen_random_uuid()",
	"UPDATE outbox_events SET version = version + 7",
	"UPDATE outbox_events SET created_at = now()",
	"TRUNCATE outbox_events",
	"UPDATE outbox_queue SET topic = 'example.com'",
	"UPDATE outbox_queue SET id = gen_random_uuid()",
	"UPDATE outbox_queue SET supersedes = true",
	"TRUNCATE outbox_queue",
	"UPDATE outbox_claims SET token = gen_random_uuid()",
	"UPDATE outbox_done SET id = gen_random_uuid()",
	"INSERT INTO outbox_done (id, status, retry_count, done_at) VALUES (gen_random_uuid(), 'published', 0, now())",
	"TRUNCATE outbox_done",
	"DELETE FROM inbox_version",
	"DELETE FROM outbox_version",
	"UPDATE operator_decisions SET operator = 'x'",
	"UPDATE operator_decisions SET items = '{x}'",
	"UPDATE operator_decisions SET at = now()",
	"INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items, at) VALUES (gen_random_uuid(), gen_random_uuid(), 'x', 'cli', 'replay', 'x', '{x}', now())",
	"TRUNCATE operator_decisions",
	"SET ROLE notification_service_owner",
}

// start runs parts of the service until the returned function is called.
func start(t *testing.T, parts ...func(context.Context) error) (stop func()) {
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range parts {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	stop = func() {
		end()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// roles makes a database with the roles of the service, and connects as a superuser and as the
// application. The server is the test's own, because roles belong to the whole server.
func roles(t *testing.T) (superuser, application *pgxpool.Pool) {
	t.Helper()
	server := servers.Postgres(t)
	urls, err := server.CreateFor(t.Context(), "../..", "mails", "notification_service")
	check.Must(t, err)
	check.Must(t, migrations.Schema.Migrate(t.Context(), urls.Owner))
	return open(t, server.URL("mails")), open(t, urls.Application)
}

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	check.Must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func rolledBack(t *testing.T, pool *pgxpool.Pool, statement string) error {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	check.Must(t, err)
	_, err = tx.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
	check.Must(t, tx.Rollback(t.Context()))
	return err
}

func isDenied(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "42501"
}

func event(order uuid.UUID, version int, domain string) rabbitmq.Message {
	return rabbitmq.Message{ID: uuid.NewString(), Type: email.OrderCreated, Body: fmt.Appendf(nil,
		`{"order_id":"%s","order_version":%d,"customer_email":"ada@%s","product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP"}`,
		order, version, domain)}
}
