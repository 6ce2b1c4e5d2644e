package email_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// FuzzParse wants every message to be an event that an e-mail can be written of, or an error.
func FuzzParse(f *testing.F) {
	f.Add(email.OrderCreated, []byte(good))
	f.Add("order.unheard-of", []byte(good))
	f.Add(email.OrderCancelled, []byte(`{"order_version":1e99}`))
	f.Add(email.OrderConfirmed, []byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, topic string, body []byte) {
		e, err := email.Parse(rabbitmq.Message{ID: messageID, Type: topic, Body: body})
		if err != nil {
			return
		}
		if e.OrderVersion < 1 || e.Quantity < 1 || e.Amount < 1 || len(e.Currency) != 3 || strings.ContainsAny(e.CustomerEmail+e.ProductID, "\x00\r\n") {
			t.Errorf("%q was read as %+v", body, e)
		}
		payload, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := email.Compose(publish.Message{Body: payload}); err != nil || m.To != e.CustomerEmail || strings.ContainsAny(m.Subject, "\x00\r\n") {
			t.Errorf("%q becomes %+v, error %v", body, m, err)
		}
	})
}
