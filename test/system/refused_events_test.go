package system

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
)

// quickGiveUp makes a relay give up an event a second after its first refusal. A relay gives up no
// event that was refused less often than leastRefusals.
var quickGiveUp = []string{"RELAY_GIVE_UP=1s", "RELAY_RETRY_BASE=10ms", "RELAY_RETRY_CAP=100ms", "RELAY_POLL_INTERVAL=10ms"}

const leastRefusals = 10

// TestP4AFullQueueFailsOnlyItsOwnEvents binds one full queue beside the others.
func TestP4AFullQueueFailsOnlyItsOwnEvents(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.bindAuditQueue()
	s.declareBoundQueue("full", "order.cancelled", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	s.fillQueue("full")
	relay := s.runOrdersCommand("relay", quickGiveUp...)
	all := append(createdEvents(10), outboxEvent{"order.cancelled", `{"why": "not"}`})
	refused := s.insertEvents(append(all, createdEvents(10)...)...)[10]

	refusals := s.wantFailed(refused, "refused", "")
	if refusals < leastRefusals {
		t.Errorf("it failed after %d refusals, want at least %d", refusals, leastRefusals)
	}
	s.awaitCount(s.ordersDB, 20, publishedCount)
	relay.awaitMetric("outbox_refused_total", float64(refusals))
	relay.wantRetries(refusals - 1)
	relay.awaitMetric("outbox_retry_exhaustions_total", 1)
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 1)
	if line := relay.awaitLog("message not published"); line["message_id"] != refused {
		t.Errorf("it is logged of another event: %v", line)
	}
	s.wantNotRefused(refused)
}

// wantNotRefused wants that no refusal is counted of any event but one.
func (s *system) wantNotRefused(except string) {
	s.Helper()
	if n := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM outbox_status WHERE retry_count > 0 AND id <> $1", except); n != 0 {
		s.Errorf("%d other events have counted refusals", n)
	}
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
	relay := s.runOrdersCommand("relay", append(quickGiveUp, throughProxy, "RELAY_WORKERS=1")...)
	for i, bad := range []struct {
		outboxEvent
		code string
	}{
		{outboxEvent{strings.Repeat("k", 300), `{"secret": 1}`}, "bad_topic"},
		{outboxEvent{"order.created", `{"secret": "` + strings.Repeat("x", 1<<20) + `"}`}, "too_large"},
	} {
		all := append(createdEvents(10), bad.outboxEvent)
		ids := s.insertEvents(append(all, createdEvents(10)...)...)
		if refusals := s.wantFailed(ids[10], bad.code, ""); refusals != 0 {
			t.Errorf("%s: %d refusals, want none", bad.code, refusals)
		}
		s.awaitCount(s.ordersDB, 20*(i+1), publishedCount)
	}
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 2)
	relay.awaitMetric("outbox_retry_exhaustions_total", 0)
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
	relay := s.runOrdersCommand("relay", append(quickGiveUp, s.mayNotWrite("order.cancelled"))...)
	relay.mayLackRights = true
	all := append(createdEvents(others/2), outboxEvent{"order.cancelled", `{"why": "not"}`})
	ids := s.insertEvents(append(all, createdEvents(others/2)...)...)
	forbidden := ids[others/2]

	refusals := s.wantFailed(forbidden, "session_closed", "403")
	if refusals < leastRefusals {
		t.Errorf("it failed after %d refusals, want at least %d", refusals, leastRefusals)
	}
	s.awaitCount(s.ordersDB, others, publishedCount)
	relay.wantRetries(refusals - 1)
	relay.awaitMetric("outbox_retry_exhaustions_total", 1)
	relay.awaitMetric(`outbox_events_total{status="failed"}`, 1)
	s.wantNotRefused(forbidden)
	copies := s.readAuditQueue()
	copies.awaitMessages(others)
	if slices.Contains(copies.ids(), forbidden) {
		t.Error("the failed event was published")
	}
}

// wantRetries wants at least so many. If the broker does not read a connection for a second, the
// events on it are sent again, and they count, too.
func (s *service) wantRetries(least int) {
	s.Helper()
	if !eventually(awaitTimeout, func() bool { return s.metric("outbox_retries_total") >= float64(least) }) {
		s.Errorf("%v retries, want at least %d", s.metric("outbox_retries_total"), least)
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
