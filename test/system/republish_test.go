package system

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP5P7RepublishRefillsABrokerThatLostItsDisk deletes everything at the broker when all
// events are delivered, and republishes them. No customer may get a second e-mail.
func TestP5P7RepublishRefillsABrokerThatLostItsDisk(t *testing.T) {
	t.Parallel()
	const n = 3
	s := newSystem(t)
	s.bindAuditQueue()
	notifications := s.runNotifications()
	notifications.awaitReadyz() // until then, only the audit queue gets events
	orders := s.runOrders()
	for i := range n {
		id := s.place(orders)
		s.awaitCount(s.notificationsDB, 2*i+1, sentCount) // otherwise the next e-mail supersedes it
		s.confirmOrder(orders, id)
		s.awaitCount(s.notificationsDB, 2*i+2, sentCount)
	}
	s.awaitCount(s.ordersDB, 2*n, publishedCount)
	first, before := s.takeMessages(auditQueue, 2*n), s.outboxRows()

	s.loseBrokerData(func() { notifications.awaitReadyz(theConsumer) })
	notifications.awaitReadyz()
	s.bindAuditQueue()
	if out := s.runCommand(orderService, "outbox", "republish", "--since", "1h"); !strings.Contains(out, "6 sent again") {
		t.Errorf("the output is %q", out)
	}
	again := s.takeMessages(auditQueue, 2*n)
	if !slices.Equal(messageIDs(again), messageIDs(first)) {
		t.Errorf("republished %v, want %v", messageIDs(again), messageIDs(first))
	}
	wantVersions(t, again)
	if after := s.outboxRows(); after != before {
		t.Errorf("the outbox was\n%s\nand is\n%s", before, after)
	}

	s.place(orders) // it comes after the republished events
	s.awaitCount(s.notificationsDB, 2*n+1, sentCount)
	s.awaitQueueDrained()
	s.wantEmails(2*n+1, 0)
}

// loseBrokerData leaves the broker as if it had a new disk: without the services' exchanges,
// queues, messages and connections. Nobody can connect until meanwhile has returned.
func (s *system) loseBrokerData(meanwhile func()) {
	s.Helper()
	_, err := s.broker.Ctl(s.Context(), "delete_vhost", s.vhost())
	must(s.T, err)
	meanwhile()
	must(s.T, s.broker.CreateVhost(s.Context(), repository, s.vhost()))
}

// wantVersions wants the events of each order to be sorted by version.
func wantVersions(t *testing.T, messages []amqp.Delivery) {
	t.Helper()
	newest := map[string]int{}
	for _, m := range messages {
		var event struct {
			Order   string `json:"order_id"`
			Version int    `json:"order_version"`
		}
		must(t, json.Unmarshal(m.Body, &event))
		if event.Version != newest[event.Order]+1 {
			t.Errorf("version %d of order %s comes after %d", event.Version, event.Order, newest[event.Order])
		}
		newest[event.Order] = event.Version
	}
}

// outboxRows returns all events of the outbox with their states.
func (s *system) outboxRows() string {
	s.Helper()
	return queryValue[string](s, s.ordersDB, `SELECT string_agg(to_jsonb(o)::text, E'\n' ORDER BY id) FROM outbox_status o`)
}
