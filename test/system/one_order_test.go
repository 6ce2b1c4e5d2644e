package system

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
	s.awaitCount(s.notificationsDB, 1, sentCount)

	messageID := queryValue[string](s, s.ordersDB, "SELECT id::text FROM outbox_status WHERE aggregate_id = $1", id)
	emails := s.mail.emails()["<"+messageID+"@example.com>"]
	if len(emails) != 1 {
		t.Fatalf("%d e-mails, want one: %v", len(emails), s.mail.emails())
	}
	const price = "=C2=A329.99" // £29.99, quoted-printable
	if l := emails[0]; l.to != "guest@example.com" || !strings.Contains(l.text, id) || !strings.Contains(l.text, price) {
		t.Errorf("e-mail %+v", l)
	}

	// The request and the e-mail have the same trace, across two processes and a broker.
	trace := orders.awaitLog("create order request arrived")["trace_id"]
	if trace == nil {
		t.Error("the request has no trace")
	}
	for _, milestone := range []logLine{
		orders.awaitLog("message published"), notifications.awaitLog("E-mail is in the outbox"), notifications.awaitLog("message published"),
	} {
		if milestone["trace_id"] != trace {
			t.Errorf("%v is not in trace %v", milestone, trace)
		}
	}
	s.wantHistory(orders, id)
}

// wantHistory wants GET /orders/{id} to show the event as published.
func (s *system) wantHistory(orders *service, id string) {
	s.Helper()
	// The e-mail may be sent before the relay marks the event as published.
	s.awaitCount(s.ordersDB, 1, publishedCount)
	body, err := call(s.Context(), http.MethodGet, orders.address()+"/orders/"+id, "", http.StatusOK)
	must(s.T, err)
	var answer struct {
		Order  struct{ ID, Status string }
		Events []struct {
			Status, EventKey string
			PublishedAt      string `json:"published_at"`
		}
	}
	must(s.T, json.Unmarshal(body, &answer))
	if answer.Order.ID != id || len(answer.Events) != 1 || answer.Events[0].Status != "published" || answer.Events[0].PublishedAt == "" {
		s.Errorf("GET answers %+v", answer)
	}
}
