package systemtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestOneOrderFromCurlToEmail(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	notifications := s.runNotifications()
	orders := s.runOrders()
	id := s.place(orders)
	s.awaitCount(s.notifications, 1, sent)

	messageID := one[string](s, s.orders, "SELECT id::text FROM outbox_events WHERE aggregate_id = $1", id)
	letters := s.mail.letters()["<"+messageID+"@example.com>"]
	if len(letters) != 1 {
		t.Fatalf("%d e-mails, want one: %v", len(letters), s.mail.letters())
	}
	const price = "=C2=A329.99" // £29.99 on the wire
	if l := letters[0]; l.to != "guest@example.com" || !strings.Contains(l.text, id) || !strings.Contains(l.text, price) {
		t.Errorf("e-mail %+v", l)
	}

	// One trace from the request to the e-mail, over two processes and a broker.
	trace := orders.await("create order request arrived")["trace_id"]
	if trace == nil {
		t.Error("the request has no trace")
	}
	for _, milestone := range []record{
		orders.await("message published"), notifications.await("message arrived"), notifications.await("Order email sent to customer"),
	} {
		if milestone["trace_id"] != trace {
			t.Errorf("%v is not in trace %v", milestone, trace)
		}
	}
	s.wantHistory(orders, id)
}

// wantHistory wants GET /orders/{id} to tell that the event is out.
func (s *system) wantHistory(orders *service, id string) {
	s.Helper()
	// Marking follows the confirm, and the e-mail may overtake it.
	s.awaitCount(s.orders, 1, published)
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, orders.address()+"/orders/"+id, nil)
	if err != nil {
		s.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Order  struct{ ID, Status string }
		Events []struct {
			Status, EventKey string
			PublishedAt      string `json:"published_at"`
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		s.Fatal(err)
	}
	if answer.Order.ID != id || len(answer.Events) != 1 || answer.Events[0].Status != "published" || answer.Events[0].PublishedAt == "" {
		s.Errorf("GET answers %+v", answer)
	}
}
