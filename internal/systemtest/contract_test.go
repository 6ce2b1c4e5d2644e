package systemtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/servertest"
)

// few makes a relay give up soon.
var few = []string{"RELAY_MAX_ATTEMPTS=2", "RELAY_RETRY_BASE=10ms", "RELAY_POLL_INTERVAL=10ms"}

// TestP3TheRoutesGoUnderLoad deletes bindings and the exchange while orders come.
func TestP3TheRoutesGoUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.keepLedger()
	orders := s.runOrders("RELAY_POLL_INTERVAL=10ms")
	clients := s.load(2, orders)
	clients.awaitMore(t, 20)
	for range 3 {
		before := orders.lines()
		s.at(func(c *amqp.Channel) error { return c.QueueUnbind(ledger, "#", exchange, nil) })
		orders.awaitAfter(before, "no queue is bound, events wait")
		clients.awaitMore(t, 20)
		s.keepLedger()
		s.awaitPublished()
	}
	for range 3 {
		before := orders.lines()
		s.at(func(c *amqp.Channel) error { return c.ExchangeDelete(exchange, false, false) })
		orders.awaitAfter(before, "connected to the broker") // over the error, with the exchange
		clients.awaitMore(t, 20)
		s.keepLedger()
		s.awaitPublished()
	}
	clients.stop()
	s.wantLedger(clients)
}

// TestP4AQueueThatRefusesFailsItsEventsAlone has a full queue among the others.
func TestP4AQueueThatRefusesFailsItsEventsAlone(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.keepLedger()
	s.bind("full", "order.cancelled", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	s.fill("full")
	relay := s.runOrdersAs("relay", few...)
	all := append(events(10), event{"order.cancelled", `{"why": "not"}`})
	ids := s.commit(append(all, events(10)...)...)
	refused := ids[10]

	dead := s.wantFailed(refused, "refused", 2)
	if string(dead.Body) != `{"why": "not"}` || dead.Type != "order.cancelled" || dead.DeliveryMode != amqp.Persistent {
		t.Errorf("the dead letter is %+v", dead)
	}
	s.awaitCount(s.orders, 20, published)
	relay.awaitMetric("outbox_retries_total", 1)
	relay.awaitMetric("outbox_retry_exhaustions_total", 1)
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 1)
	relay.awaitMetric("outbox_dlq_published_total", 1)
	s.wantNoDeadLetter()
	if got := len(slices.DeleteFunc(relay.all("message not published"), func(r record) bool { return r["message_id"] != refused })); got != 2 {
		t.Errorf("%d attempts, want 2", got)
	}
	if got := one[int](s, s.orders, "SELECT sum(retry_count)::int FROM outbox_events WHERE id <> $1", refused); got != 0 {
		t.Errorf("its neighbours had to pay for %d attempts", got)
	}
}

// fill publishes to a queue until it takes no more.
func (s *system) fill(queue string) {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		for range 100 {
			confirmation, err := c.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{})
			if err != nil || !confirmation.Wait() {
				return err
			}
		}
		return fmt.Errorf("%s does not fill", queue)
	})
}

// TestP9WhatNoBrokerCouldTakeIsNeverSent commits events that would close the channel,
// or the connection. The CHECKs that keep them out are dropped here.
func TestP9WhatNoBrokerCouldTakeIsNeverSent(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.keepLedger()
	// Without the domains' CHECKs, which let no such event in.
	_, err := s.orders.Exec(t.Context(), "ALTER TABLE outbox_events ALTER event_key TYPE text, ALTER payload TYPE jsonb")
	must(t, err)
	proxy, throughProxy := s.proxied(orderService)
	relay := s.runOrdersAs("relay", append(few, throughProxy)...)
	for i, bad := range []struct {
		event
		code string
	}{
		{event{strings.Repeat("k", 300), `{"secret": 1}`}, "bad_key"},
		{event{"order.created", `{"secret": "` + strings.Repeat("x", 1<<20) + `"}`}, "too_large"},
	} {
		all := append(events(10), bad.event)
		ids := s.commit(append(all, events(10)...)...)
		dead := s.wantFailed(ids[10], bad.code, 0)
		delete(dead.Headers, "x-delivery-count") // the queue's
		if len(dead.Body) != 0 || dead.RoutingKey != "" || dead.Type != "" || len(dead.Headers) != 4 {
			t.Errorf("%s: the dead letter has more than id and reason: %+v", bad.code, dead)
		}
		s.awaitCount(s.orders, 20*(i+1), published)
	}
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 2)
	relay.awaitMetric("outbox_retry_exhaustions_total", 0)
	relay.awaitMetric("outbox_dlq_published_total", 2)
	s.wantNoDeadLetter()
	if got := proxy.Accepted(); got != 1 {
		t.Errorf("%d connections, want the one that all share", got)
	}
}

// TestP9AMessageThatKillsItsChannelIsSingledOut has a broker that closes the channel over
// one routing key, which this user may not write.
func TestP9AMessageThatKillsItsChannelIsSingledOut(t *testing.T) {
	t.Parallel()
	const neighbours = 40
	s := newSystem(t)
	s.keepLedger()
	relay := s.runOrdersAs("relay", append(few, s.mayNotWrite("order.cancelled"))...)
	relay.mayBeRefused = true
	all := append(events(neighbours/2), event{"order.cancelled", `{"why": "not"}`})
	ids := s.commit(append(all, events(neighbours/2)...)...)
	killer := ids[neighbours/2]

	dead := s.wantFailed(killer, "channel_closed", 2)
	if string(dead.Body) != `{"why": "not"}` || !strings.Contains(fmt.Sprint(dead.Headers["failure-reason"]), "403") {
		t.Errorf("the dead letter is %+v", dead)
	}
	s.awaitCount(s.orders, neighbours, published)
	relay.awaitMetric("outbox_retries_total", 1)
	relay.awaitMetric("outbox_retry_exhaustions_total", 1)
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 1)
	s.wantNoDeadLetter()
	if got := one[int](s, s.orders, "SELECT sum(retry_count)::int FROM outbox_events WHERE id <> $1", killer); got != 0 {
		t.Errorf("its neighbours had to pay for %d attempts", got)
	}
	copies := s.readLedger()
	copies.awaitMessages(neighbours)
	if slices.Contains(copies.ids(), killer) {
		t.Error("what is failed was published")
	}
}

// mayNotWrite makes a user that may do everything but publish under one key, and
// returns the setting that makes a service this user.
func (s *system) mayNotWrite(key string) (setting string) {
	s.Helper()
	vhost := s.vhost()
	user := "user-" + vhost
	for _, command := range [][]string{
		{"add_user", user, user},
		{"set_permissions", "-p", vhost, user, ".*", ".*", ".*"},
		{"set_topic_permissions", "-p", vhost, user, exchange, "^(?!" + key + "$)", ".*"},
	} {
		_, err := broker.Ctl(s.Context(), command...)
		must(s.T, err)
	}
	return "AMQP_URL=" + servertest.As(user, s.brokerURL)
}
