package system

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadyzNamesWhatTheConsumerWaitsFor makes each dependency of the consumer unavailable,
// and then available again.
func TestReadyzNamesWhatTheConsumerWaitsFor(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	broker, throughBroker := s.brokerProxy(notificationService)
	database, throughDatabase := s.databaseProxy()
	refuseConnections(broker)
	service := s.runNotifications(throughBroker, throughDatabase)
	service.awaitReadyz("a session with the broker")
	admitConnections(broker)
	service.awaitReadyz("the exchange outbox.events")
	service.wantHealth("waiting for the exchange outbox.events")
	s.declareExchange()
	service.awaitReadyz()
	service.wantHealth("")

	refuseConnections(database)
	service.awaitReadyz("the database")
	admitConnections(database)
	service.awaitReadyz()

	// The broker does not report this. The service checks every ten seconds.
	s.deleteExchange(eventsExchange)
	service.awaitReadyz("the exchange outbox.events")
	s.declareExchange()
	service.awaitReadyz()
}

func TestOrderServiceIsReadyWithoutTheBroker(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	broker, throughBroker := s.brokerProxy(orderService)
	refuseConnections(broker)
	orders := s.runOrders(throughBroker)
	orders.awaitLog(logNoSession)
	orders.awaitLog("taking orders")
	orders.wantHealth("")
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
