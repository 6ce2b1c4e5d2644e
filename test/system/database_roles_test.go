package system

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

// forbiddenToAll are the statements that no service may execute.
var forbiddenToAll = []string{
	"CREATE TABLE mine (id int)",
	"CREATE TEMPORARY TABLE mine (id int)",
	"CREATE SCHEMA mine",
	"CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
	"DELETE FROM goose_db_version",
	"UPDATE goose_db_version SET version_id = 0",
	"ALTER ROLE CURRENT_USER CONNECTION LIMIT 1000",
	"COPY (SELECT 1) TO PROGRAM 'cat >/dev/null'",
}

// forbiddenStatements are further statements that a service may not execute, by its role.
var forbiddenStatements = map[string][]string{
	"order_service": {
		"UPDATE outbox_events SET payload = '{}'",
		"UPDATE outbox_events SET topic = 'order.cancelled'",
		"UPDATE outbox_events SET id = gen_random_uuid()",
		"UPDATE outbox_events SET version = 7",
		"UPDATE outbox_events SET created_at = now()",
		"UPDATE outbox_events SET traceparent = ''",
		"UPDATE outbox_queue SET topic = 'order.cancelled'",
		"UPDATE outbox_queue SET id = gen_random_uuid()",
		"UPDATE outbox_queue SET supersedes = true",
		"UPDATE outbox_claims SET token = gen_random_uuid()",
		"UPDATE outbox_done SET id = gen_random_uuid()",
		"INSERT INTO outbox_done (id, status, retry_count, done_at) VALUES (gen_random_uuid(), 'published', 0, now())",
		"TRUNCATE outbox_done",
		"TRUNCATE outbox_events",
		"TRUNCATE outbox_queue",
		"ALTER TABLE outbox_events ADD more int",
		"DROP TABLE outbox_events CASCADE",
		"DELETE FROM outbox_version",
		"CREATE TRIGGER mine BEFORE UPDATE ON outbox_events EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"DROP TABLE idempotency_keys",
		"DELETE FROM orders",
		"TRUNCATE orders CASCADE",
		"UPDATE orders SET amount = 1",
		"UPDATE orders SET customer_email = 'x@example.com'",
		"UPDATE idempotency_keys SET order_id = gen_random_uuid()",
		"UPDATE products SET unit_price = 1",
		"INSERT INTO products VALUES ('x', 'x', 1, 'GBP')",
		"UPDATE operator_decisions SET operator = 'x'",
		"UPDATE operator_decisions SET items = '{}'",
		"UPDATE operator_decisions SET at = now()",
		"INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items, at) VALUES (gen_random_uuid(), gen_random_uuid(), 'x', 'cli', 'replay', 'x', '{x}', now())",
		"TRUNCATE operator_decisions",
		"SET ROLE order_service_owner",
	},
	"notification_service": nil, // notification-service/migrations has them
}

// TestTheDatabaseEnforcesThePrivileges also executes each statement as a superuser, so that no
// statement fails only for another reason.
func TestTheDatabaseEnforcesThePrivileges(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for role, statements := range forbiddenStatements {
		application, superuser := s.connectTo(s.rolesOf(role).Application), s.connectTo(s.superuserURL(role))
		for _, statement := range append(statements, forbiddenToAll...) {
			if err := execAndRollBack(t, application, statement); !insufficientPrivilege(err) {
				t.Errorf("%s may %s: %v", role, statement, err)
			}
			if err := execAndRollBack(t, superuser, statement); err != nil {
				t.Errorf("a superuser cannot %s, so the test proves nothing: %v", statement, err)
			}
		}
	}
}

// TestTheRoleOfTheServiceMayDeleteOldEvents: the janitor of a relay deletes an old event that was
// published, and one that was discarded. It keeps one that waits, and one that has failed, however
// old they are.
func TestTheRoleOfTheServiceMayDeleteOldEvents(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.declareBoundQueue("all", "#", nil)
	s.appendEvent(s.ordersDB, createdKey)
	relay := s.runOrdersCommand("relay")
	s.awaitCount(s.ordersDB, 1, publishedCount)
	relay.stop()
	failed, discarded := s.appendFailed(s.ordersDB), s.appendFailed(s.ordersDB)
	s.runCommand(services.Orders, "outbox", "discard", discarded)
	waits := s.appendEvent(s.ordersDB, createdKey, "UPDATE outbox_queue SET available_at = now() + interval '1 hour' WHERE id = $1")
	s.wantCount(s.ordersDB, 2, "SELECT count(*) FROM outbox_done")
	s.exec(s.ordersDB, `
		UPDATE outbox_done SET done_at = now() - interval '8 days';
		UPDATE outbox_events SET created_at = now() - interval '8 days'`)

	s.runOrdersCommand("relay") // its janitor begins at once
	s.awaitCount(s.ordersDB, 0, "SELECT count(*) FROM outbox_done")
	s.wantCount(s.ordersDB, 2, "SELECT count(*) FROM outbox_events")
	for id, want := range map[string]string{failed: "failed", waits: "pending"} {
		if got := queryValue[string](s, s.ordersDB, "SELECT status FROM outbox_status JOIN outbox_events USING (id) WHERE id = $1", id); got != want {
			t.Errorf("event %s is %q, want %q", id, got, want)
		}
	}
}

// TestOldDecisionsOfOperatorsArePruned by both services, with the rights of their roles. Younger
// ones stay.
func TestOldDecisionsOfOperatorsArePruned(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	databases := []*pgxpool.Pool{s.ordersDB, s.notificationsDB}
	for _, db := range databases {
		s.exec(db, `INSERT INTO operator_decisions (id, decision, at, operator, via, action, filter, items)
			SELECT gen_random_uuid(), gen_random_uuid(), now() - age, 'ann', 'cli', 'replay', 'ids', '{a}'
			FROM unnest('{366 days, 364 days}'::interval[]) age`)
	}
	s.runOrders()
	s.runNotifications()
	for _, db := range databases {
		s.awaitCount(db, 1, "SELECT count(*) FROM operator_decisions")
		s.wantCount(db, 1, "SELECT count(*) FROM operator_decisions WHERE at > now() - interval '365 days'")
	}
}

// TestNoServiceReadsTheOthersDatabase also tries the roles of the owners.
func TestNoServiceReadsTheOthersDatabase(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, test := range []struct{ role, database string }{
		{s.ordersRoles.Application, s.notificationsRoles.Application},
		{s.ordersRoles.Owner, s.notificationsRoles.Owner},
		{s.notificationsRoles.Application, s.ordersRoles.Application},
		{s.notificationsRoles.Owner, s.ordersRoles.Owner},
	} {
		from := parseURL(t, test.role)
		from.Path = parseURL(t, test.database).Path
		// The command must fail and not wait for the database.
		err := services.Migrate(t.Context(), filepath.Join(binaries, services.Orders), filepath.Join(t.TempDir(), "log"), from.String())
		if err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s migrates %s: %v", from.User.Username(), from.Path, err)
		}
		if conn, err := pgx.Connect(t.Context(), from.String()); !insufficientPrivilege(err) {
			t.Errorf("%s can connect to %s: %v", from.User.Username(), from.Path, err)
			if err == nil {
				_ = conn.Close(t.Context())
			}
		}
	}
}

// TestMigrateGrantsAndRevokesPrivileges: until then the service waits, and says what for.
func TestMigrateGrantsAndRevokesPrivileges(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(s.ordersDB, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM order_service; GRANT DELETE ON orders TO order_service")
	orders := s.runOrders()
	orders.mayLackRights = true
	if waits := orders.awaitLog("waiting for the database"); !strings.Contains(waits["error"].(string), "run `order-service migrate` as the owner") {
		t.Errorf("the service waits for: %v", waits)
	}
	must(s.T, migrate(s.Context(), services.Orders, s.ordersRoles))
	s.place(orders)
	application := s.connectTo(s.ordersRoles.Application)
	if err := execAndRollBack(t, application, "DELETE FROM orders"); !insufficientPrivilege(err) {
		t.Errorf("the right to delete orders is not revoked: %v", err)
	}
}

// TestTheServicesConnectAsTheirOwnUsers asks the servers who is connected. It proves that all
// other tests run with these users' rights.
func TestTheServicesConnectAsTheirOwnUsers(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders := s.runOrders()
	orders.awaitLog("connected to the broker")
	s.runNotifications().awaitReadyz()
	s.place(orders)
	s.awaitCount(s.notificationsDB, 1, sentCount)
	for want, db := range map[string]*pgxpool.Pool{"order_service": s.ordersDB, "notification_service": s.notificationsDB} {
		if got := queryValue[string](s, db, `SELECT string_agg(DISTINCT usename, ', ') FROM pg_stat_activity
			WHERE datname = current_database() AND application_name <> $1`, testApplication); got != want {
			t.Errorf("connected to the database of %s: %s", want, got)
		}
	}
	users, err := s.broker.Ctl(t.Context(), "list_connections", "user", "vhost")
	must(t, err)
	for _, want := range []string{services.Orders, services.Notifications} {
		if !strings.Contains(users, want+"\t"+s.vhost()) {
			t.Errorf("%s is not connected as itself: %s", want, users)
		}
	}
	if strings.Contains(users, "guest\t"+s.vhost()) {
		t.Errorf("guest is connected: %s", users)
	}
}

func (s *system) rolesOf(role string) servers.Roles {
	if role == "order_service" {
		return s.ordersRoles
	}
	return s.notificationsRoles
}

// superuserURL returns the URL of a service's database for the superuser.
func (s *system) superuserURL(role string) string {
	return s.database.URL(strings.Trim(parseURL(s.T, s.rolesOf(role).Owner).Path, "/"))
}

func (s *system) connectTo(url string) *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), url)
	must(s.T, err)
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// execAndRollBack executes statements in a transaction and rolls it back.
func execAndRollBack(t *testing.T, conn *pgx.Conn, statements string) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), "BEGIN")
	must(t, err)
	_, refused := conn.PgConn().Exec(t.Context(), statements).ReadAll()
	_, err = conn.Exec(t.Context(), "ROLLBACK")
	must(t, err)
	return refused
}

func insufficientPrivilege(err error) bool {
	var reason *pgconn.PgError
	return errors.As(err, &reason) && reason.Code == "42501"
}

func parseURL(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u
}

// TestAChangedPasswordIsReadAgain: each pool of both services loses its sessions, and logs in with
// what the file has now.
func TestAChangedPasswordIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSystemOn(t, servers.Postgres(t), sharedBroker)
	databases := map[string]*pgxpool.Pool{"order_service": s.ordersDB, "notification_service": s.notificationsDB}
	must(t, s.database.RequirePasswords(t.Context(), slices.Collect(maps.Keys(databases))))
	folder := t.TempDir()
	store := func(role, address string) (setting string) {
		must(t, os.WriteFile(filepath.Join(folder, role), []byte(address), 0o600))
		return "DATABASE_URL_FILE=" + filepath.Join(folder, role)
	}
	orders := s.runOrders(store("order_service", s.ordersRoles.Application))
	notifications := s.runNotifications(store("notification_service", s.notificationsRoles.Application))
	order := s.place(orders)
	s.awaitCount(s.notificationsDB, 1, sentCount)
	for role, db := range databases {
		u := parseURL(t, s.rolesOf(role).Application)
		u.User = url.UserPassword(role, "changed")
		store(role, u.String())
		s.exec(db, "ALTER ROLE "+role+" PASSWORD 'changed'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
	}
	s.awaitPlaced(orders.address())
	s.awaitCount(s.notificationsDB, 2, sentCount)
	for _, each := range []*service{orders, notifications} {
		each.awaitReadyz()
		each.wantPage("/find?q="+order, "Order "+order)
	}
}
