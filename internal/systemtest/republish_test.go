package systemtest

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP5P7RepublishRefillsABrokerThatLostItsDisk takes everything from the broker when
// all is delivered, and has it sent again. The customers must not notice.
func TestP5P7RepublishRefillsABrokerThatLostItsDisk(t *testing.T) {
	t.Parallel()
	const n = 3
	s := newSystem(t)
	s.keepLedger()
	notifications := s.runNotifications()
	notifications.await("taking messages") // the ledger takes what comes before
	orders := s.runOrders()
	for i := range n {
		id := s.place(orders)
		s.awaitCount(s.notifications, 2*i+1, sent) // or the next event would supersede it
		s.confirm(orders, id)
		s.awaitCount(s.notifications, 2*i+2, sent)
	}
	s.awaitCount(s.orders, 2*n, published)
	first, before := s.take(ledger, 2*n), s.outbox()

	restarted := notifications.lines()
	s.loseDisk()
	notifications.awaitAfter(restarted, "taking messages")
	s.keepLedger()
	if out := s.outboxCommand("republish", "--since", "1h"); !strings.Contains(out, "6 events sent again") {
		t.Errorf("it says %q", out)
	}
	again := s.take(ledger, 2*n)
	if !slices.Equal(messageIDs(again), messageIDs(first)) {
		t.Errorf("sent %v again, want %v", messageIDs(again), messageIDs(first))
	}
	wantVersions(t, again)
	if after := s.outbox(); after != before {
		t.Errorf("the outbox was\n%s, and is\n%s", before, after)
	}

	s.place(orders) // it comes behind the repeats
	s.awaitCount(s.notifications, 2*n+1, sent)
	s.awaitIdle()
	for id, letters := range s.mail.letters() {
		if len(letters) != 1 {
			t.Errorf("%d e-mails with id %s, want one", len(letters), id)
		}
	}
	if got := len(s.mail.letters()); got != 2*n+1 {
		t.Errorf("%d different e-mails, want %d", got, 2*n+1)
	}
}

func (s *system) confirm(orders *service, id string) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPost, orders.address()+"/orders/"+id+"/confirm", nil)
	must(s.T, err)
	response, err := http.DefaultClient.Do(request)
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		s.Fatalf("confirming answers %s", response.Status)
	}
}

// loseDisk leaves the broker as it is on a new disk: the services' exchanges, queues
// and messages are gone, and so are their connections.
func (s *system) loseDisk() {
	s.Helper()
	_, err := s.broker.Ctl(s.Context(), "delete_vhost", s.vhost())
	must(s.T, err)
	must(s.T, s.broker.Provision(s.Context(), repository, s.vhost()))
}

// messageIDs are sorted: of different orders, any may be first.
func messageIDs(messages []amqp.Delivery) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	slices.Sort(ids)
	return ids
}

// wantVersions wants the events of each order in the order of their versions.
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

// outbox is everything in the table.
func (s *system) outbox() string {
	s.Helper()
	return one[string](s, s.orders, `SELECT string_agg(to_jsonb(o)::text, E'\n' ORDER BY id) FROM outbox_events o`)
}

// outboxCommand runs order-service's command for operators, and returns what it says.
func (s *system) outboxCommand(arguments ...string) string {
	s.Helper()
	return s.operate(orderService, append([]string{"outbox"}, arguments...)...)
}

// deadLetterCommand runs notification-service's.
func (s *system) deadLetterCommand(arguments ...string) string {
	s.Helper()
	return s.operate(notificationService, append([]string{"dlq"}, arguments...)...)
}

func (s *system) operate(service string, arguments ...string) string {
	s.Helper()
	command := exec.CommandContext(s.Context(), filepath.Join(binaries, service), arguments...)
	command.Env = append(s.settings(service), "APP_ENV=demo")
	output, err := command.CombinedOutput()
	if err != nil {
		s.Fatalf("%s %v: %v\n%s", service, arguments, err, output)
	}
	return string(output)
}
