package system

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/servers"
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
		"UPDATE outbox_published SET published_at = now()",
		"INSERT INTO outbox_published (id, slot, published_at) VALUES (gen_random_uuid(), 0, now())",
		"UPDATE outbox_discarded SET id = gen_random_uuid()",
		"UPDATE outbox_ring SET one = true",
		"DELETE FROM outbox_ring",
		"DELETE FROM outbox_events",
		"DELETE FROM outbox_published",
		"DELETE FROM outbox_events_0",
		"UPDATE outbox_events_0 SET slot = 0",
		"INSERT INTO outbox_published_0 (id, slot) VALUES (gen_random_uuid(), 0)",
		"TRUNCATE outbox_events",
		"TRUNCATE outbox_queue",
		"ALTER TABLE outbox_events ADD more int",
		"ALTER TABLE outbox_events DETACH PARTITION outbox_events_0",
		"CREATE TABLE mine PARTITION OF outbox_events FOR VALUES IN (8)",
		"DROP TABLE outbox_events_0",
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

// TestTheRoleOfTheServiceMayTurnTheRing makes the janitor of a relay empty a slot of the log and
// make it the current one. The slot has an old published event, one that has failed, and one that
// was discarded lately. The janitor moves the last two.
func TestTheRoleOfTheServiceMayTurnTheRing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.bindAuditQueue()
	old := s.insertEvents(createdEvents(1)...)[0]
	relay := s.runOrdersCommand("relay")
	s.awaitCount(s.ordersDB, 1, publishedCount)
	relay.stop()
	failed, discarded := queryValue[string](s, s.ordersDB, insertFailedSQL), queryValue[string](s, s.ordersDB, insertFailedSQL)
	s.runCommand(orderService, "outbox", "discard", discarded)
	_, err := s.ordersDB.Exec(t.Context(), `
		UPDATE outbox_published SET published_at = now() - interval '8 days';
		UPDATE outbox_ring SET current = 7, since = now() - interval '2 days'`)
	must(t, err)

	s.runOrdersCommand("relay") // its janitor begins at once
	s.awaitCount(s.ordersDB, 2, "SELECT count(*) FROM outbox_events WHERE slot = 7")
	for id, want := range map[string]string{failed: "failed", discarded: "discarded"} {
		if got := queryValue[string](s, s.ordersDB, "SELECT status FROM outbox_status WHERE id = $1", id); got != want {
			t.Errorf("event %s is %q, want %q", id, got, want)
		}
	}
	// It empties the slot a minute after the move. Another relay need not wait.
	_, err = s.ordersDB.Exec(t.Context(), "UPDATE outbox_ring SET moved = '-infinity'")
	must(t, err)
	s.runOrdersCommand("relay")
	s.awaitCount(s.ordersDB, 0, "SELECT current FROM outbox_ring")
	s.wantCount(0, s.ordersDB, 0, "SELECT count(*) FROM outbox_events WHERE id = '"+old+"'")
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
		if output, err := migrateCommand(t.Context(), orderService, servers.Roles{Owner: from.String()}).CombinedOutput(); !strings.Contains(string(output), "42501") {
			t.Errorf("%s migrates %s: %v: %s", from.User.Username(), from.Path, err, output)
		}
		if conn, err := pgx.Connect(t.Context(), from.String()); !insufficientPrivilege(err) {
			t.Errorf("%s can connect to %s: %v", from.User.Username(), from.Path, err)
			if err == nil {
				_ = conn.Close(t.Context())
			}
		}
	}
}

// TestMigrateGrantsAndRevokesPrivileges has replicas that migrate at the same time.
func TestMigrateGrantsAndRevokesPrivileges(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, err := s.ordersDB.Exec(t.Context(), "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM order_service; GRANT DELETE ON orders TO order_service")
	must(t, err)
	orders := s.runOrders()
	orders.mayLackRights = true
	if waits := orders.awaitLog("waiting for the database"); !strings.Contains(waits["error"].(string), "run `order-service migrate` as the owner") {
		t.Errorf("the service waits for: %v", waits)
	}
	var replicas sync.WaitGroup
	for range 3 {
		replicas.Go(func() { s.migrate(orderService, s.ordersRoles) })
	}
	replicas.Wait()
	s.place(orders)
	s.wantForbidden("DELETE FROM orders")
}

func (s *system) wantForbidden(statement string) {
	s.Helper()
	if err := execAndRollBack(s.T, s.connectTo(s.ordersRoles.Application), statement); !insufficientPrivilege(err) {
		s.Errorf("%s: %v", statement, err)
	}
}

// TestAnOlderDatabaseIsHandedOverToTheRoles has a database that a superuser created, as in
// this project's earlier versions.
func TestAnOlderDatabaseIsHandedOverToTheRoles(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	name := s.vhost() + "_older"
	_, err := s.ordersDB.Exec(t.Context(), "CREATE DATABASE "+name)
	must(t, err)
	older := s.database.URL(name)
	s.migrate(orderService, servers.Roles{Owner: older})
	roles, err := servers.CreateRoles(t.Context(), repository, older, "order_service")
	must(t, err)
	s.ordersRoles = roles
	s.migrate(orderService, roles)
	must(t, execAndRollBack(t, s.connectTo(roles.Owner), "ALTER TABLE outbox_events ADD more int; CREATE INDEX ON outbox_events_0 (topic)"))
	s.place(s.runOrders())
	s.wantForbidden("UPDATE outbox_events SET payload = '{}'")
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
	for _, want := range []string{orderService, notificationService} {
		if !strings.Contains(users, want+"\t"+s.vhost()) {
			t.Errorf("%s is not connected as itself: %s", want, users)
		}
	}
	if strings.Contains(users, "guest\t"+s.vhost()) {
		t.Errorf("guest is connected: %s", users)
	}
}
