package notification

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// FuzzParse wants every message to be an event that an e-mail can be written of, or an
// error.
func FuzzParse(f *testing.F) {
	const good = `{"order_id":"0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b","order_version":1,"product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP"}`
	f.Add(OrderCreated, []byte(good))
	f.Add("order.unheard-of", []byte(good))
	f.Add(OrderCancelled, []byte(`{"order_version":1e99}`))
	f.Add(OrderConfirmed, []byte("\xff\x00"))
	service := NewService(Config{From: "shop@example.com", DefaultRecipient: "guest@example.com"}, nil, nil, nil)
	f.Fuzz(func(t *testing.T, key string, body []byte) {
		e, err := service.Parse(rabbitmq.Message{Type: key, Body: body})
		if err != nil {
			return
		}
		if e.OrderVersion < 1 || e.Quantity < 1 || e.Amount < 1 || len(e.Currency) != 3 || strings.ContainsAny(e.CustomerEmail+e.ProductID, "\x00\r\n") {
			t.Errorf("%q was read as %+v", body, e)
		}
	})
}
