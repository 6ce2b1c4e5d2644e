package system

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
)

// twoAttempts makes a relay mark an event as failed after its second attempt.
var twoAttempts = []string{"RELAY_MAX_ATTEMPTS=2", "RELAY_RETRY_BASE=10ms", "RELAY_POLL_INTERVAL=10ms"}

// TestP4AFullQueueFailsOnlyItsOwnEvents binds one full queue beside the others. A refusal counts
// only if other events are taken after it. So the first one never counts.
func TestP4AFullQueueFailsOnlyItsOwnEvents(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.bindAuditQueue()
	s.declareBoundQueue("full", "order.cancelled", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	s.fillQueue("full", emptyMessage)
	relay := s.runOrdersCommand("relay", twoAttempts...)
	all := append(createdEvents(10), outboxEvent{"order.cancelled", `{"why": "not"}`})
	ids := s.insertEvents(append(all, createdEvents(10)...)...)
	refused := ids[10]
	others := 20 + s.insertEventsUntilOneFails()

	dead := s.wantFailed(refused, "refused", 2)
	if string(dead.Body) != `{"why": "not"}` || dead.Type != "order.cancelled" || dead.DeliveryMode != amqp.Persistent {
		t.Errorf("the dead letter is %+v", dead)
	}
	s.awaitCount(s.ordersDB, others, publishedCount)
	relay.awaitMetric("outbox_retries_total", 1)
	relay.awaitMetric("outbox_retry_exhaustions_total", 1)
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 1)
	relay.awaitMetric("outbox_dlq_published_total", 1)
	s.wantEmpty(orderDeadLetterQueue)
	if got := relay.metric("outbox_refused_total"); got < 3 {
		t.Errorf("%v refusals, want one more than the 2 attempts", got)
	}
	if line := relay.awaitLog("message not published"); line["message_id"] != refused {
		t.Errorf("it is logged of another event: %v", line)
	}
	if got := queryValue[int](s, s.ordersDB, "SELECT sum(retry_count)::int FROM outbox_status WHERE id <> $1", refused); got != 0 {
		t.Errorf("the other events used %d attempts", got)
	}
}

// insertEventsUntilOneFails inserts events of new orders, one after the other, and returns their
// number.
func (s *system) insertEventsUntilOneFails() (n int) {
	s.Helper()
	if !poll(50*time.Millisecond, awaitTimeout, func() bool {
		s.insertEvents(createdEvents(1)...)
		n++
		return queryValue[int](s, s.ordersDB, failedCount) == 1
	}) {
		s.Fatal("no event has failed")
	}
	return n
}

// TestP9AnInvalidEventIsNeverSent inserts events that would close the channel or the
// connection. It first drops the CHECKs that reject such events.
func TestP9AnInvalidEventIsNeverSent(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.bindAuditQueue()
	_, err := s.ordersDB.Exec(t.Context(), `
		ALTER TABLE outbox_events
			DROP CONSTRAINT outbox_events_topic_check, DROP CONSTRAINT outbox_events_payload_check`)
	must(t, err)
	proxy, throughProxy := s.brokerProxy(orderService)
	relay := s.runOrdersCommand("relay", append(twoAttempts, throughProxy)...)
	for i, bad := range []struct {
		outboxEvent
		code string
	}{
		{outboxEvent{strings.Repeat("k", 300), `{"secret": 1}`}, "bad_topic"},
		{outboxEvent{"order.created", `{"secret": "` + strings.Repeat("x", 1<<20) + `"}`}, "too_large"},
	} {
		all := append(createdEvents(10), bad.outboxEvent)
		ids := s.insertEvents(append(all, createdEvents(10)...)...)
		dead := s.wantFailed(ids[10], bad.code, 0)
		delete(dead.Headers, "x-delivery-count") // the queue adds it
		if len(dead.Body) != 0 || dead.RoutingKey != "" || dead.Type != "" || len(dead.Headers) != 4 {
			t.Errorf("%s: the dead letter has more than the id and the reason: %+v", bad.code, dead)
		}
		s.awaitCount(s.ordersDB, 20*(i+1), publishedCount)
	}
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 2)
	relay.awaitMetric("outbox_retry_exhaustions_total", 0)
	relay.awaitMetric("outbox_dlq_published_total", 2)
	s.wantEmpty(orderDeadLetterQueue)
	if got := proxy.Accepted(); got != 1 {
		t.Errorf("%d connections, want one that all events share", got)
	}
}

// TestP9AMessageThatClosesTheChannelIsIsolated uses a user who may not write one routing
// key. The broker closes the channel for each such message.
func TestP9AMessageThatClosesTheChannelIsIsolated(t *testing.T) {
	t.Parallel()
	const others = 40
	s := newSystem(t)
	s.bindAuditQueue()
	relay := s.runOrdersCommand("relay", append(twoAttempts, s.mayNotWrite("order.cancelled"))...)
	relay.mayLackRights = true
	all := append(createdEvents(others/2), outboxEvent{"order.cancelled", `{"why": "not"}`})
	ids := s.insertEvents(append(all, createdEvents(others/2)...)...)
	forbidden := ids[others/2]

	dead := s.wantFailed(forbidden, "session_closed", 2)
	if string(dead.Body) != `{"why": "not"}` || !strings.Contains(fmt.Sprint(dead.Headers["failure-reason"]), "403") {
		t.Errorf("the dead letter is %+v", dead)
	}
	s.awaitCount(s.ordersDB, others, publishedCount)
	relay.awaitMetric("outbox_retries_total", 1)
	relay.awaitMetric("outbox_retry_exhaustions_total", 1)
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 1)
	s.wantEmpty(orderDeadLetterQueue)
	if got := queryValue[int](s, s.ordersDB, "SELECT sum(retry_count)::int FROM outbox_status WHERE id <> $1", forbidden); got != 0 {
		t.Errorf("the other events used %d attempts", got)
	}
	copies := s.readAuditQueue()
	copies.awaitMessages(others)
	if slices.Contains(copies.ids(), forbidden) {
		t.Error("the failed event was published")
	}
}

// mayNotWrite creates a user who may do everything except publish with one routing key. It
// returns the setting that makes a service connect as this user.
func (s *system) mayNotWrite(key string) (setting string) {
	s.Helper()
	vhost := s.vhost()
	user := "user-" + vhost
	for _, command := range [][]string{
		{"add_user", user, user},
		{"set_permissions", "-p", vhost, user, ".*", ".*", ".*"},
		{"set_topic_permissions", "-p", vhost, user, eventsExchange, "^(?!" + key + "$)", ".*"},
	} {
		_, err := s.broker.Ctl(s.Context(), command...)
		must(s.T, err)
	}
	return "AMQP_URL=" + servers.BrokerURLFor(user, s.brokerURL)
}
