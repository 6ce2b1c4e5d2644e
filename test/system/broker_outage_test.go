package system

import (
	"testing"

	"example.com/transactional-outbox/test/servers"
)

// What a relay logs when the broker is unavailable.
const (
	logNoSession = "no session with the broker, trying again"
	logBlocked   = "the broker blocks publishers"
)

// quickConfirmTimeout makes a relay notice soon that nothing is confirmed, and poll all the time.
var quickConfirmTimeout = []string{"RELAY_CONFIRM_TIMEOUT=3s", "RELAY_LEASE=5s", "RELAY_POLL_INTERVAL=10ms"}

// underLoad is a system in which clients place orders all the time.
type underLoad struct {
	*system
	orders  *service
	clients *load
}

// TestP4P10ABrokerOutageOrAlarmDelaysNoOrder makes the broker unavailable in several ways
// while clients place orders. It is one test because a broker takes seconds to start.
func TestP4P10ABrokerOutageOrAlarmDelaysNoOrder(t *testing.T) {
	t.Parallel()
	broker := servers.RabbitMQ(t)
	s := newSystemOn(t, sharedDatabase, broker)
	s.recordOutboxChanges()
	s.bindAuditQueue()
	_, throughProxy := s.brokerProxy(orderService)
	orders := s.runOrders(append(quickConfirmTimeout, throughProxy)...)
	g := &underLoad{system: s, orders: orders, clients: s.startLoad(1, orders)}
	g.clients.awaitMore(t, 20)
	s.awaitPublished()

	g.setMemoryAlarm(true)
	// Each worker has a connection of its own.
	if !eventually(awaitTimeout, func() bool { return len(orders.logLines(logBlocked)) >= 2 }) {
		t.Fatal("the relay does not notice the alarm")
	}
	// So many orders take longer than the relay needs to reconnect and to try again.
	g.wantNoClaims(1000)
	g.setMemoryAlarm(false)
	s.awaitPublished()

	must(t, broker.Stop(t.Context()))
	g.wantReleased(orders.logLength())
	g.wantNoClaims(50)
	must(t, broker.Start(t.Context()))
	s.awaitPublished()

	must(t, broker.Kill())
	g.wantReleased(orders.logLength())
	g.wantNoClaims(50)
	must(t, broker.Start(t.Context()))
	s.awaitPublished()

	g.clients.stop()
	s.wantNothingRefused(orders)
	orders.stop()

	g.wantShutdownWhileBlocked()
	s.wantAuditQueueComplete(g.clients)
}

// wantReleased waits until the relay has logged, after so many lines, that it has no session. Then
// it wants the relay to release what it had in hand.
func (g *underLoad) wantReleased(lines int) {
	g.Helper()
	g.orders.awaitLogAfter(lines, logNoSession)
	g.awaitCount(g.ordersDB, 0, inProgressCount)
}

// wantNoClaims wants the relay to claim nothing while clients place so many orders.
func (g *underLoad) wantNoClaims(orders int) {
	g.Helper()
	before := queryValue[int](g.system, g.ordersDB, claimCount)
	g.clients.awaitMore(g.T, orders)
	if after := queryValue[int](g.system, g.ordersDB, claimCount); after != before {
		g.Errorf("%d events were claimed", after-before)
	}
}

// wantShutdownWhileBlocked stops a relay that has sent a batch to a broker which blocks. The
// relay must not wait for the confirms: that would take longer than a shutdown may take.
func (g *underLoad) wantShutdownWhileBlocked() {
	g.Helper()
	relay := g.runOrdersCommand("relay")
	g.insertEvents(createdEvents(1)...)
	g.awaitPublished()
	g.setMemoryAlarm(true)
	g.insertEvents(createdEvents(10)...)
	relay.awaitLog(logBlocked)
	relay.stop()
	if held := queryValue[int](g.system, g.ordersDB, inProgressCount); held != 0 {
		g.Errorf("it ended and left %d events in_progress", held)
	}
	g.setMemoryAlarm(false)
	g.runOrdersCommand("relay")
}

// TestP4AStalledNetworkLosesNoEvent stalls the connection to the broker without an error
// that the relay could see.
func TestP4AStalledNetworkLosesNoEvent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*servers.Proxy){
		"and then flows again": func(*servers.Proxy) {},
		"and then is cut":      (*servers.Proxy).Cut,
		"and then is reset":    (*servers.Proxy).Reset,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.bindAuditQueue()
			proxy, throughProxy := s.brokerProxy(orderService)
			orders := s.runOrders(append(quickConfirmTimeout, throughProxy)...)
			clients := s.startLoad(2, orders)
			clients.awaitMore(t, 20)
			s.awaitPublished()

			before := orders.logLength()
			proxy.Stall()
			orders.awaitLogAfter(before, "message not published") // the confirm timed out
			orders.awaitLogAfter(before, logNoSession)
			s.awaitCount(s.ordersDB, 0, inProgressCount)
			clients.awaitMore(t, 20)
			end(proxy)
			proxy.Resume()
			s.awaitPublished()
			clients.stop()
			s.wantAuditQueueComplete(clients)
		})
	}
}
