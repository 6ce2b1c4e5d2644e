package system

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/services"
)

const theConsumer, theDatabase = "the consumer of order events", "the database"

// TestReadyzNamesTheCheckThatFails makes each dependency of the consumer unavailable, and then
// available again. The page says more, and so does the log: only they may name users and hosts. The
// mail server is away all the time: e-mails wait for it in the database, and readiness does not.
func TestReadyzNamesTheCheckThatFails(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	broker, throughBroker := s.brokerProxy(services.Notifications)
	database, throughDatabase := s.proxyFor("DATABASE_URL", s.notificationsRoles.Application)
	refuseConnections(broker)
	service := s.runNotifications(throughBroker, throughDatabase, "SMTP_URL=smtp://127.0.0.1:1")
	service.awaitReadyz(theConsumer)
	service.wantPage("/", "waiting for a session with the broker", "runbook.md#consumernotup")
	broker.Refuse(false)
	service.wantPage("/", "waiting for the exchange outbox.events")
	service.wantHealth("not ready: " + theConsumer)
	s.declareExchange()
	service.awaitReadyz()
	service.wantHealth("")

	refuseConnections(database)
	service.awaitReadyz(theDatabase)
	s.publish(newEvents(1)[0].publishing())
	if body := service.wantPage("/", "The database does not answer this page", "waiting for its handler"); strings.Contains(body, "#consumernotup") {
		t.Errorf("the page names another chapter than #databaseaway: %s", body)
	}
	database.Refuse(false)
	service.awaitReadyz()
	if !slices.ContainsFunc(service.logLines("not ready"), func(l services.Line) bool {
		return l["check"] == theDatabase && l["error"] != nil
	}) {
		t.Errorf("the log does not say why: %v", service.logLines("not ready"))
	}

	// The broker does not report this. The service checks every ten seconds.
	s.withChannel(func(c *amqp.Channel) error { return c.ExchangeDelete(eventsExchange, false, false) })
	service.awaitReadyz(theConsumer)
	s.declareExchange()
	service.awaitReadyz()
}

func TestP10OrderServiceIsReadyWithoutTheBroker(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	broker, throughBroker := s.brokerProxy(services.Orders)
	refuseConnections(broker)
	orders := s.runOrders(throughBroker)
	orders.awaitLog("no session with the broker, trying again")
	orders.awaitLog("taking orders")
	orders.wantHealth("")
}

// TestAServiceIsNotReadyBeforeItsMigrations: in a rollout, the pods of the old version then go on.
func TestAServiceIsNotReadyBeforeItsMigrations(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(s.ordersDB, "DELETE FROM goose_db_version WHERE version_id > 0")
	s.exec(s.notificationsDB, "DELETE FROM goose_db_version WHERE version_id > 0")
	orders, notifications := s.runOrders(), s.runNotifications()
	orders.awaitLog("waiting for the database")
	orders.awaitReadyz(theDatabase)
	notifications.awaitLog("waiting for the database")
	notifications.awaitReadyz(theConsumer, theDatabase)
}

// wantHealth runs the command healthcheck, and wants it to fail with this reason, or to
// succeed if the reason is "".
func (s *service) wantHealth(reason string) {
	s.Helper()
	check := exec.Command(filepath.Join(binaries, s.name), "healthcheck")
	check.Env = []string{"OPS_ADDR=" + s.opsAddress(), "DATABASE_URL=postgres://own:own@db/own"}
	output, err := check.CombinedOutput()
	if healthy := reason == ""; healthy != (err == nil) || !strings.Contains(string(output), reason) {
		s.Errorf("healthcheck: %v, output %q, want %q", err, output, reason)
	}
}
