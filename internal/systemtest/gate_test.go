package systemtest

import (
	"fmt"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/servertest"
)

// What a relay says when it knows that the broker takes nothing.
const (
	noSession = "no session with the broker, trying again"
	blocked   = "the broker blocks publishers"
)

// impatient lets a relay find out soon that nothing is confirmed, and makes it look for
// work all the time.
var impatient = []string{"RELAY_CONFIRM_TIMEOUT=1s", "RELAY_LEASE=3s", "RELAY_POLL_INTERVAL=10ms"}

// gated is order-service before a broker of its own, under load.
type gated struct {
	*system
	broker  *servertest.RabbitMQServer
	orders  *service
	clients *load
}

// TestP4P10ABrokerThatIsAwayOrBlocksHoldsUpNoOrder takes the broker away in every way
// while orders come. A broker takes seconds to start, so all of it is one test.
func TestP4P10ABrokerThatIsAwayOrBlocksHoldsUpNoOrder(t *testing.T) {
	t.Parallel()
	broker := servertest.RabbitMQ(t)
	s := newSystemOn(t, database, broker)
	s.watch()
	s.keepLedger()
	proxy, throughProxy := s.proxied(orderService)
	orders := s.runOrders(append(impatient, throughProxy)...)
	g := &gated{system: s, broker: broker, orders: orders, clients: s.load(1, orders)}
	g.clients.awaitMore(t, 20)
	s.awaitPublished()

	before := orders.lines()
	g.alarm(true)
	// So many that a relay which connects again, and tries again, does so meanwhile.
	g.claimsNothing(before, blocked, 1000)
	g.alarm(false)
	s.awaitPublished()

	must(t, broker.Stop(t.Context()))
	g.claimsNothing(orders.lines(), noSession, 50)
	must(t, broker.Start(t.Context()))
	s.awaitPublished()

	must(t, broker.Kill())
	g.claimsNothing(orders.lines(), noSession, 50)
	must(t, broker.Start(t.Context()))
	s.awaitPublished()

	g.clients.stop()
	wantSpared(t, orders, proxy)
	orders.stop()

	g.endsWhileBlocked()
	s.wantLedger(g.clients)
}

// claimsNothing wants the relay, once it says after so many lines that it knows, to give
// back what it holds, and to take nothing while so many orders come.
func (g *gated) claimsNothing(lines int, knows string, orders int) {
	g.Helper()
	g.orders.awaitAfter(lines, knows)
	g.awaitCount(g.system.orders, 0, inProgress)
	before := one[int](g.system, g.system.orders, claims)
	g.clients.awaitMore(g.T, orders)
	if after := one[int](g.system, g.system.orders, claims); after != before {
		g.Errorf("%q, and then %d events were claimed", knows, after-before)
	}
}

// awaitPublished waits until all is published that is there by now.
func (s *system) awaitPublished() {
	s.Helper()
	newest := one[int64](s, s.orders, "SELECT coalesce(max(seq), 0) FROM outbox_events")
	s.awaitCount(s.orders, 0, fmt.Sprintf("SELECT count(*) FROM outbox_events WHERE seq <= %d AND status <> 'published'", newest))
}

func (g *gated) alarm(on bool) {
	g.Helper()
	limit := []string{"0.4"}
	if on {
		limit = []string{"absolute", "1MB"}
	}
	_, err := g.broker.Ctl(g.Context(), append([]string{"set_vm_memory_high_watermark"}, limit...)...)
	must(g.T, err)
}

// endsWhileBlocked asks a relay to end that has a batch at a broker which blocks: it
// would wait for the confirms for longer than it takes to see this.
func (g *gated) endsWhileBlocked() {
	g.Helper()
	relay := g.runOrdersAs("relay")
	g.commit(events(1)...)
	g.awaitPublished()
	g.alarm(true)
	g.commit(events(10)...)
	relay.await(blocked)
	relay.stop()
	if held := one[int](g.system, g.system.orders, inProgress); held != 0 {
		g.Errorf("it ended and left %d events in progress", held)
	}
	g.alarm(false)
	g.runOrdersAs("relay")
}

// wantSpared wants each attempt to connect to be followed by a pause that spares the
// broker, and that ends soon enough after its return.
func wantSpared(t *testing.T, orders *service, proxy *servertest.Proxy) {
	t.Helper()
	dials, pauses := proxy.Accepted(), orders.all(noSession)
	if dials > len(pauses)+1 {
		t.Errorf("%d connections, and only %d pauses between them", dials, len(pauses))
	}
	for _, r := range pauses {
		if in := duration(t, r, "in"); in < 200*time.Millisecond || in > 12*time.Second {
			t.Errorf("a pause of %s", in)
		}
	}
}

// TestP4ANetworkThatDropsEverythingLosesNothing stalls the way to the broker: nobody
// tells the relay of it.
func TestP4ANetworkThatDropsEverythingLosesNothing(t *testing.T) {
	t.Parallel()
	for end, how := range map[string]func(*servertest.Proxy){
		"and then flows again": func(*servertest.Proxy) {},
		"and then is cut":      (*servertest.Proxy).Cut,
		"and then is reset":    (*servertest.Proxy).Reset,
	} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.keepLedger()
			proxy, throughProxy := s.proxied(orderService)
			orders := s.runOrders(append(impatient, throughProxy)...)
			clients := s.load(2, orders)
			clients.awaitMore(t, 20)
			s.awaitPublished()

			before := orders.lines()
			proxy.Stall()
			orders.awaitAfter(before, "message not published") // the confirm timed out
			orders.awaitAfter(before, noSession)
			s.awaitCount(s.orders, 0, inProgress)
			clients.awaitMore(t, 20)
			how(proxy)
			proxy.Resume()
			s.awaitPublished()
			clients.stop()
			s.wantLedger(clients)
		})
	}
}
