package system

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/servers"
)

// TestP4P10ServersMayStartLateAndRestart starts the services before their servers, then stops and
// starts each server, and deletes the exchange of the events.
func TestP4P10ServersMayStartLateAndRestart(t *testing.T) {
	t.Parallel()
	database, broker := servers.Postgres(t), servers.RabbitMQ(t)
	s := newSystemOn(t, database, broker)
	must(t, database.Stop(t.Context()))
	must(t, broker.Stop(t.Context()))

	orders, notifications := s.runOrders(), s.runNotifications()
	orders.awaitLog("waiting for the database")
	notifications.awaitLog("waiting for the database")
	must(t, database.Start(t.Context()))
	address := orders.address()
	orders.awaitLog("no session with the broker, trying again")

	// P10: the API takes orders while the broker is away.
	s.place(orders)
	must(t, broker.Start(t.Context()))
	s.awaitCount(s.notificationsDB, 1, sentCount)

	must(t, database.Kill())
	if _, err := place(t.Context(), address); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("with the database away: %v, want a 503", err)
	}
	must(t, database.Start(t.Context()))
	s.ordersDB.Reset() // the test's own connections died as well
	s.notificationsDB.Reset()
	s.awaitPlaced(address)
	s.awaitCount(s.notificationsDB, 2, sentCount)

	// RabbitMQ 3.10 forgets a queue that is not written to its table of queues: nothing is then its
	// leader ("leader not known").
	_, err := broker.Ctl(t.Context(), "eval", "[dets:sync(Table) || Table <- dets:all()].")
	must(t, err)
	must(t, broker.Kill())
	s.place(orders)
	must(t, broker.Start(t.Context()))
	s.awaitCount(s.notificationsDB, 3, sentCount)

	// The relay and the consumer declare what somebody deletes.
	s.withChannel(func(c *amqp.Channel) error { return c.ExchangeDelete(eventsExchange, false, false) })
	s.place(orders)
	s.awaitCount(s.notificationsDB, 4, sentCount)
	// An event that no queue takes is not refused, and neither is one without an exchange.
	orders.awaitMetric(0, "outbox_refused_total")
	s.wantCount(s.ordersDB, 0, failedCount)
}

// TestP12SIGTERMUnderLoadLosesAndRepeatsNothing ends both services while clients place orders, and
// starts them again.
func TestP12SIGTERMUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.recordEvents()
	notifications := s.startConsumer()
	orders := s.runOrders()
	clients := s.startLoad(8, orders)
	for range 3 {
		s.awaitMore(clients, 50)
		orders.stop()
		notifications.stop()
		orders, notifications = s.runOrders(), s.runNotifications()
		clients.sendTo(orders)
	}
	s.awaitMore(clients, 20)
	clients.stop()

	committed := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM orders")
	s.awaitCount(s.ordersDB, committed, publishedCount)
	s.awaitCount(s.notificationsDB, committed, sentCount)
	s.awaitCount(s.ordersDB, clients.count(), "SELECT count(*) FROM orders WHERE id = ANY ($1::uuid[])", clients.placed)
	all := copies.await(committed)
	ids := map[string]bool{}
	for _, d := range all {
		ids[d.MessageId] = true
	}
	if len(all) != committed || len(ids) != committed {
		t.Errorf("%d copies of %d events came, want one of each of %d orders", len(all), len(ids), committed)
	}
	if n, events := len(s.mail.Mails()), len(s.mail.Copies()); n != committed || events != committed {
		t.Errorf("%d e-mails about %d events came, want %d", n, events, committed)
	}
}

// TestP5P6P12SIGKILLAtEveryStep kills a process at one step, and lets another process go on.
func TestP5P6P12SIGKILLAtEveryStep(t *testing.T) {
	t.Parallel()
	for step, emails := range map[string]int{
		"consumer.arrived": 1,
		"effect.recorded":  1, // in the transaction
		"effect.committed": 1,
		"consumer.handled": 1,
		"relay.claimed":    1,
		// Only this step repeats an e-mail: the mail server has accepted it, but no row says so.
		"relay.confirmed": 2,
		"relay.marked":    1,
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			e := newEvents(1)[0]
			s.crashAt(step, e.publishing())
			next := s.startConsumer()
			s.awaitCount(s.notificationsDB, 1, sentCount)
			s.wantQueuesEmpty()
			s.wantEffects(1)
			all := s.mail.Copies()
			if got := all[e.messageID()]; got != emails || len(all) != 1 {
				t.Errorf("%d e-mails with the event's id, want %d; ids in all: %d", got, emails, len(all))
			}
			s.wantNothingFailed(next)
			next.awaitMetric(0, "consumer_messages_total", "outcome", "retried")
		})
	}
}

// crashAt runs a process that kills itself at a step of handling this message.
func (s *system) crashAt(step string, m amqp.Publishing) {
	s.Helper()
	s.declareExchange()
	binary, err := withCrashPoints()
	must(s.T, err)
	dying := s.runNotificationsBinary(binary, "CRASH_AT="+step)
	dying.awaitReadyz()
	s.publish(m)
	if !eventually(func() bool { return !dying.Alive() }) || !dying.WasKilled() {
		s.Fatal("it has not ended by SIGKILL")
	}
}

// noPolling makes a relay depend on its wake-ups.
const noPolling = "RELAY_POLL_INTERVAL=1h"

// startListeningRelay starts a relay that never polls, and a queue for its events.
func (s *system) startListeningRelay() *service {
	s.Helper()
	s.recordEvents()
	relay := s.runOrdersCommand("relay", noPolling)
	relay.awaitLog("connected to the broker")
	relay.awaitLog("listening for events of other processes")
	return relay
}

// wantPublishedOneByOne places orders, and wants each to be published before the next.
func (s *system) wantPublishedOneByOne(orders *service, n int) {
	s.Helper()
	for range n {
		s.awaitCount(s.ordersDB, 1, publishedCount+" AND aggregate_id = $1", s.place(orders))
	}
}

func TestAnOrderOfAnotherProcessNeedsNoPoll(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	relay := s.startListeningRelay()
	s.wantPublishedOneByOne(s.runOrdersCommand("api"), 5)
	if got := relay.metric("outbox_relay_listening"); got != 1 {
		t.Errorf("outbox_relay_listening is %v, want 1", got)
	}
}
