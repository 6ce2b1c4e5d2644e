package system

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

// lock locks tables, so that every other transaction waits for them until release.
func (s *system) lock(db *pgxpool.Pool, tables string) (release func()) {
	s.Helper()
	return s.holdTransaction(db, "LOCK TABLE "+tables)
}

// holdTransaction executes a statement, and holds its locks until release.
func (s *system) holdTransaction(db *pgxpool.Pool, statement string, args ...any) (release func()) {
	s.Helper()
	tx, err := db.Begin(s.Context())
	must(s.T, err)
	end := sync.OnceValue(func() error { return tx.Rollback(context.WithoutCancel(s.Context())) })
	s.Cleanup(func() { _ = end() })
	_, err = tx.Exec(s.Context(), statement, args...)
	must(s.T, err)
	return func() { must(s.T, end()) }
}

func (s *system) exec(statement string, args ...any) {
	s.Helper()
	_, err := s.notificationsDB.Exec(s.Context(), statement, args...)
	must(s.T, err)
}

// breakTables makes every write to some tables of notification-service fail with a code of
// PostgreSQL. Without names it breaks all tables.
func (s *system) breakTables(code string, tables ...string) {
	s.Helper()
	if len(tables) == 0 {
		tables = strings.Fields(queryValue[string](s, s.notificationsDB, `SELECT string_agg(relname, ' ') FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`))
	}
	s.exec(`CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'broken by the test' USING ERRCODE = '` + code + `'; END $$`)
	for _, table := range tables {
		s.exec("CREATE TRIGGER broken BEFORE INSERT OR UPDATE OR DELETE ON " + table + " FOR EACH ROW EXECUTE FUNCTION broken()")
	}
}

func (s *system) mendTables() {
	s.Helper()
	s.exec("DROP FUNCTION broken CASCADE")
}

// failOrders makes each attempt to record an event of these orders fail with a code of PostgreSQL,
// until it is mended.
func (s *system) failOrders(code string, messages ...amqp.Publishing) (mend func(amqp.Publishing)) {
	s.Helper()
	s.exec(`CREATE TABLE failing (order_id uuid);
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			IF EXISTS (SELECT FROM failing WHERE order_id = NEW.order_id) THEN
				RAISE EXCEPTION 'failed by the test' USING ERRCODE = '` + code + `';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON order_progress FOR EACH ROW EXECUTE FUNCTION fail()`)
	for _, m := range messages {
		s.exec("INSERT INTO failing VALUES ($1)", orderOf(m))
	}
	return func(m amqp.Publishing) { s.exec("DELETE FROM failing WHERE order_id = $1", orderOf(m)) }
}

// lockOrder holds the row of an order's progress.
func (s *system) lockOrder(m amqp.Publishing) (release func()) {
	s.Helper()
	return s.holdTransaction(s.notificationsDB, "INSERT INTO order_progress (order_id, last_version) VALUES ($1, 1)", orderOf(m))
}

var orderPattern = regexp.MustCompile(`"order_id": *"([^"]*)"`)

func orderOf(m amqp.Publishing) uuid.UUID {
	return uuid.MustParse(string(orderPattern.FindSubmatch(m.Body)[1]))
}

// endSessions ends the sessions of notification-service.
func (s *system) endSessions() {
	s.Helper()
	s.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> '" + testApplication + "'")
}

// shortenTimeout sets a timeout of both roles to 200 ms, only in the databases of this test.
func (s *system) shortenTimeout(timeout string) {
	s.Helper()
	for role, db := range map[string]*pgxpool.Pool{"order_service": s.ordersDB, "notification_service": s.notificationsDB} {
		name := queryValue[string](s, db, "SELECT current_database()::text")
		_, err := db.Exec(s.Context(), "ALTER ROLE "+role+" IN DATABASE "+name+" SET "+timeout+" = '200ms'")
		must(s.T, err)
	}
}

// TestDatabaseTimeoutsUseNoAttempts holds a lock for longer than the timeouts of the roles in
// deploy/postgres/roles.sql, which it makes short. Both services must treat this like a database
// that is away: no message or event fails, and no attempt is counted.
func TestDatabaseTimeoutsUseNoAttempts(t *testing.T) {
	t.Parallel()
	for _, timeout := range []string{"lock_timeout", "statement_timeout"} {
		t.Run(timeout, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.shortenTimeout(timeout)
			orders, notifications := s.runOrders(), s.startConsumer()
			s.place(orders)
			s.awaitCount(s.notificationsDB, 1, sentCount)

			release := s.lock(s.ordersDB, "orders, outbox_events, outbox_queue")
			if _, err := place(t.Context(), orders.address()); err == nil || !strings.Contains(err.Error(), "503") {
				t.Errorf("behind a lock: %v, want a 503", err)
			}
			orders.awaitLog("cannot claim from the outbox")
			release()
			release = s.lock(s.notificationsDB, "processed_messages")
			s.awaitPlaced(orders.address())
			notifications.awaitLog("no messages are taken")
			release()

			s.awaitCount(s.notificationsDB, 2, sentCount)
			s.wantNothingFailed(notifications)
			s.wantNothingRefused(orders)
		})
	}
}
