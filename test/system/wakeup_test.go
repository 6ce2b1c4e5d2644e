package system

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers"
)

// noPolling makes a relay depend on its wake-ups.
const noPolling = "RELAY_POLL_INTERVAL=1h"

// What a relay logs about its wake-ups.
const (
	logListening    = "listening for events of other processes"
	logNotListening = "not listening: the relay finds events of other processes by its poll"
	logCannotNotify = "cannot notify the relays of other processes: they find events by their poll"
)

// startListeningRelay starts a relay that never polls, and binds a queue for its events.
func (s *system) startListeningRelay(settings ...string) *service {
	s.Helper()
	s.subscribe()
	relay := s.runOrdersCommand("relay", append(settings, noPolling)...)
	relay.awaitLog("connected to the broker")
	relay.awaitLog(logListening)
	return relay
}

// placeAndWantPublished places n orders, and wants each to be published before the next.
func (s *system) placeAndWantPublished(orders *service, n int) {
	s.Helper()
	for range n {
		query := publishedCount + " AND aggregate_id = '" + s.place(orders) + "'"
		if !s.wantCount(awaitTimeout, s.ordersDB, 1, query) {
			s.FailNow()
		}
	}
}

// countNotifications counts the notifications of the outbox until the test ends.
func (s *system) countNotifications() *atomic.Int64 {
	s.Helper()
	conn := s.connectTo(s.superuserURL("order_service"))
	channel := queryValue[string](s, s.ordersDB, "SELECT 'outbox_' || 'outbox_queue'::regclass::oid")
	_, err := conn.Exec(s.Context(), "LISTEN "+channel)
	must(s.T, err)
	received := &atomic.Int64{}
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return
			}
			received.Add(1)
		}
	}()
	s.Cleanup(func() { stop(); <-ended })
	return received
}

func TestAnOrderOfAnotherProcessNeedsNoPoll(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	relay := s.startListeningRelay()
	s.placeAndWantPublished(s.runOrdersCommand("api"), 5)
	if got := relay.metric("outbox_relay_listening"); got != 1 {
		t.Errorf("outbox_relay_listening is %v, want 1", got)
	}
}

// TestTheLastOrderOfAProcessNeedsNoPoll stops the API while clients place orders.
func TestTheLastOrderOfAProcessNeedsNoPoll(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startListeningRelay()
	orders := s.runOrdersCommand("api")
	clients := s.startLoad(4, orders)
	clients.awaitMore(t, 20)
	orders.stop()
	clients.stop()
	s.wantAllPublished()
}

func (s *system) wantAllPublished() {
	s.Helper()
	if !eventually(awaitTimeout, s.allPublished) {
		s.Error("some events are not published")
	}
}

func (s *system) allPublished() bool {
	return queryValue[bool](s, s.ordersDB, "SELECT ("+publishedCount+") = (SELECT count(*) FROM orders)")
}

// TestAnOrderIsPublishedByTheReplicaThatHasABroker refuses the broker's connections only to
// the process that takes the orders.
func TestAnOrderIsPublishedByTheReplicaThatHasABroker(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startListeningRelay()
	broker, throughBroker := s.brokerProxy(orderService)
	broker.Refuse(true)
	s.placeAndWantPublished(s.runOrders(throughBroker), 3)
}

// TestAProcessWithAnIdleRelayDoesNotNotify checks that other replicas are not woken for events
// that the process publishes itself.
func TestAProcessWithAnIdleRelayDoesNotNotify(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.subscribe()
	received := s.countNotifications()
	orders := s.runOrders(noPolling)
	orders.awaitLog("connected to the broker")
	s.placeAndWantPublished(orders, 20)
	// On a busy machine, a worker may not be idle again when the next order comes.
	if got := received.Load(); got > 2 {
		t.Errorf("%d notifications for 20 orders that the relay of the same process published", got)
	}
}

func TestNotificationsAreCoalesced(t *testing.T) {
	t.Parallel()
	const clients, orders, gap = 16, 500, 5 * time.Millisecond
	s := newSystem(t)
	received := s.countNotifications()
	began := time.Now()
	load := s.startLoad(clients, s.runOrdersCommand("api"))
	load.awaitMore(t, orders)
	load.stop()
	most := int64(time.Since(began)/gap) + 1
	got := received.Load()
	t.Logf("%d notifications for %d orders in %s", got, load.count(), time.Since(began).Round(time.Millisecond))
	if got == 0 || got > most || got > int64(load.count()) {
		t.Errorf("%d notifications, want at most %d", got, most)
	}
}

func TestWithoutNotificationsThePollFindsTheOrder(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.subscribe()
	received := s.countNotifications()
	relay := s.runOrdersCommand("relay", "OUTBOX_NOTIFY=false", "RELAY_POLL_INTERVAL=100ms")
	s.placeAndWantPublished(s.runOrdersCommand("api", "OUTBOX_NOTIFY=false"), 3)
	if got := received.Load(); got != 0 {
		t.Errorf("%d notifications, want none", got)
	}
	if got := relay.logLines(logListening); len(got) != 0 {
		t.Error("the relay listens")
	}
}

func TestARelayWhoseListenerIsTerminatedListensAgain(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	relay := s.startListeningRelay()
	orders := s.runOrdersCommand("api")
	for range 2 {
		before := relay.logLength()
		ended := queryValue[int](s, s.ordersDB, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN %'`)
		if ended != 1 {
			t.Fatalf("%d sessions listened, want 1", ended)
		}
		s.placeAndWantPublished(orders, 1) // also if the relay does not listen again yet
		relay.awaitLogAfter(before, logListening)
		s.placeAndWantPublished(orders, 1)
	}
}

func TestTheWakeUpSurvivesADatabaseRestart(t *testing.T) {
	t.Parallel()
	database := servers.Postgres(t)
	s := newSystemOn(t, database, sharedBroker)
	relay := s.startListeningRelay()
	orders := s.runOrdersCommand("api")
	s.placeAndWantPublished(orders, 1)
	for _, end := range []func() error{func() error { return database.Stop(t.Context()) }, database.Kill} {
		before := relay.logLength()
		must(t, end())
		relay.awaitLogAfter(before, logNotListening)
		must(t, database.Start(t.Context()))
		relay.awaitLogAfter(before, logListening)
		s.ordersDB.Reset()
		// The first claims use connections that the restart closed. The kill may also lose the
		// mark of an earlier event, because marks do not wait for the disk: that event waits for
		// the end of its lease.
		marked := queryValue[int](s, s.ordersDB, publishedCount)
		s.awaitPlaced(orders.address())
		if !eventually(awaitTimeout, func() bool { return queryValue[int](s, s.ordersDB, publishedCount) > marked }) {
			t.Fatal("nothing is published after the restart")
		}
		s.placeAndWantPublished(orders, 1)
	}
}

// TestALostListenerIsLoggedOnce refuses connections to the database for some time.
func TestALostListenerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	proxy, throughProxy := s.ordersDatabaseProxy()
	relay := s.startListeningRelay(throughProxy)
	proxy.Refuse(true)
	before := proxy.Accepted()
	proxy.Cut()
	if !eventually(awaitTimeout, func() bool { return proxy.Accepted() >= before+10 }) {
		t.Fatal("the relay does not reconnect")
	}
	lines := relay.logLength()
	proxy.Refuse(false)
	relay.awaitLogAfter(lines, logListening)
	if lost, back := len(relay.logLines(logNotListening)), len(relay.logLines(logListening)); lost != 1 || back != 2 {
		t.Errorf("logged %d times as lost, want 1; %d times as listening, want 2", lost, back)
	}
}
