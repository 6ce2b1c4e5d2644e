package systemtest

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/internal/servertest"
)

// inEvery is what no service may do in its database, whatever it has in it.
var inEvery = []string{
	"CREATE TABLE mine (id int)",
	"CREATE TEMPORARY TABLE mine (id int)",
	"CREATE SCHEMA mine",
	"CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
	"DELETE FROM goose_db_version",
	"UPDATE goose_db_version SET version_id = 0",
	"ALTER ROLE CURRENT_USER CONNECTION LIMIT 1000",
	"COPY (SELECT 1) TO PROGRAM 'cat >/dev/null'",
}

// notGranted is what each service may not do, by its role.
var notGranted = map[string][]string{
	"order_service": {
		"UPDATE outbox_events SET payload = '{}'",
		"UPDATE outbox_events SET event_key = 'order.cancelled'",
		"UPDATE outbox_events SET id = gen_random_uuid()",
		"UPDATE outbox_events SET aggregate_version = 7",
		"UPDATE outbox_events SET created_at = now()",
		"INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, status, published_at) " +
			"VALUES (gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', '{}', 'published', now())",
		"TRUNCATE outbox_events",
		"ALTER TABLE outbox_events ALTER payload TYPE jsonb",
		"CREATE TRIGGER mine BEFORE UPDATE ON outbox_events EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"DROP TABLE idempotency_keys",
		"DELETE FROM orders",
		"TRUNCATE orders CASCADE",
		"UPDATE orders SET amount = 1",
		"UPDATE orders SET customer_email = 'x@example.com'",
		"UPDATE idempotency_keys SET order_id = gen_random_uuid()",
		"UPDATE products SET unit_price = 1",
		"INSERT INTO products VALUES ('x', 'x', 1, 'GBP')",
		"SET ROLE order_service_owner",
	},
	"notification_service": {
		"UPDATE notifications SET recipient = 'x@example.com'",
		"UPDATE notifications SET order_details = '{}'",
		"UPDATE notifications SET message_id = gen_random_uuid()",
		"UPDATE processed_messages SET message_id = gen_random_uuid()",
		"TRUNCATE processed_messages",
		"ALTER TABLE notifications ADD more text",
		"DROP TABLE order_progress",
		"SET ROLE notification_service_owner",
	},
}

// TestTheDatabaseRefusesWhatAServiceMustNotDo also lets a superuser do all of it, so that
// nothing is refused for another reason.
func TestTheDatabaseRefusesWhatAServiceMustNotDo(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for role, statements := range notGranted {
		application, superuser := s.connect(s.rolesOf(role).Application), s.connect(s.superuser(role))
		for _, statement := range append(statements, inEvery...) {
			if err := rolledBack(t, application, statement); !insufficient(err) {
				t.Errorf("%s may %s: %v", role, statement, err)
			}
			if err := rolledBack(t, superuser, statement); err != nil {
				t.Errorf("nobody may %s, so that proves nothing: %v", statement, err)
			}
		}
	}
}

// TestNobodyReadsTheOtherServicesDatabase also tries the owners.
func TestNobodyReadsTheOtherServicesDatabase(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, test := range []struct{ way, to string }{
		{s.ordersRoles.Application, s.notifyRoles.Application},
		{s.ordersRoles.Owner, s.notifyRoles.Owner},
		{s.notifyRoles.Application, s.ordersRoles.Application},
		{s.notifyRoles.Owner, s.ordersRoles.Owner},
	} {
		way, to := parsed(t, test.way), parsed(t, test.to)
		way.Path = to.Path
		// It ends, and does not wait for what never comes.
		if output, err := s.migration(orderService, servertest.Roles{Owner: way.String()}).CombinedOutput(); !strings.Contains(string(output), "42501") {
			t.Errorf("%s migrates %s: %v: %s", way.User.Username(), way.Path, err, output)
		}
		if conn, err := pgx.Connect(t.Context(), way.String()); !insufficient(err) {
			t.Errorf("%s gets into %s: %v", way.User.Username(), way.Path, err)
			if err == nil {
				_ = conn.Close(t.Context())
			}
		}
	}
}

// TestMigrateGrantsWhatIsMissingAndTakesTheRest has replicas that migrate together.
func TestMigrateGrantsWhatIsMissingAndTakesTheRest(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, err := s.orders.Exec(t.Context(), "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM order_service; GRANT DELETE ON orders TO order_service")
	must(t, err)
	orders := s.runOrders()
	orders.mayBeRefused = true
	if waits := orders.await("waiting for the database"); !strings.Contains(waits["error"].(string), "run `order-service migrate` as the owner") {
		t.Errorf("it waits for: %v", waits)
	}
	var replicas sync.WaitGroup
	for range 3 {
		replicas.Go(func() { s.migrate(orderService, s.ordersRoles) })
	}
	replicas.Wait()
	s.place(orders)
	s.wantRefused("DELETE FROM orders")
}

func (s *system) wantRefused(statement string) {
	s.Helper()
	if err := rolledBack(s.T, s.connect(s.ordersRoles.Application), statement); !insufficient(err) {
		s.Errorf("%s: %v", statement, err)
	}
}

// TestADatabaseFromBeforeTheRolesIsHandedOver was made by a superuser, as this project's once
// were.
func TestADatabaseFromBeforeTheRolesIsHandedOver(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	name := s.vhost() + "_older"
	_, err := s.orders.Exec(t.Context(), "CREATE DATABASE "+name)
	must(t, err)
	older := s.database.URL(name)
	s.migrate(orderService, servertest.Roles{Owner: older})
	roles, err := servertest.Provision(t.Context(), repository, older, "order_service")
	must(t, err)
	s.ordersRoles = roles
	s.migrate(orderService, roles)
	must(t, rolledBack(t, s.connect(roles.Owner), "ALTER TABLE outbox_events ADD more int; ALTER DOMAIN event_key ADD CHECK (VALUE <> 'x')"))
	s.place(s.runOrders())
	s.wantRefused("UPDATE outbox_events SET payload = '{}'")
}

func (s *system) rolesOf(role string) servertest.Roles {
	if role == "order_service" {
		return s.ordersRoles
	}
	return s.notifyRoles
}

// superuser is the way into a service's database past its roles.
func (s *system) superuser(role string) string {
	return s.database.URL(strings.Trim(parsed(s.T, s.rolesOf(role).Owner).Path, "/"))
}

func (s *system) connect(url string) *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), url)
	must(s.T, err)
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// rolledBack executes statements, and takes them back.
func rolledBack(t *testing.T, conn *pgx.Conn, statements string) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), "BEGIN")
	must(t, err)
	_, refused := conn.PgConn().Exec(t.Context(), statements).ReadAll()
	_, err = conn.Exec(t.Context(), "ROLLBACK")
	must(t, err)
	return refused
}

func insufficient(err error) bool {
	var reason *pgconn.PgError
	return errors.As(err, &reason) && reason.Code == "42501"
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u
}
