package system

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// poisonMessages change a good message into a bad one. The body is the JSON of an order.
var poisonMessages = map[string]func(*amqp.Publishing){
	"no JSON":                      func(m *amqp.Publishing) { m.Body = []byte("order_id=1") },
	"truncated JSON":               func(m *amqp.Publishing) { m.Body = m.Body[:len(m.Body)/2] },
	"trailing data":                func(m *amqp.Publishing) { m.Body = append(m.Body, "{}"...) },
	"an array":                     func(m *amqp.Publishing) { m.Body = []byte("[]") },
	"null":                         func(m *amqp.Publishing) { m.Body = []byte("null") },
	"an empty body":                func(m *amqp.Publishing) { m.Body = nil },
	"deeply nested":                func(m *amqp.Publishing) { m.Body = bytes.Repeat([]byte("["), 100_000) },
	"a large body":                 func(m *amqp.Publishing) { m.Body = bytes.Repeat([]byte("x"), 1<<20) },
	"invalid UTF-8":                replacing(`sku123`, "sku\xff"),
	"a duplicate name":             replacing(`"currency"`, `"quantity": 1, "currency"`),
	"a number as text":             replacing(`"quantity": 2`, `"quantity": "2"`),
	"a fractional quantity":        replacing(`"quantity": 2`, `"quantity": 2.5`),
	"a negative quantity":          replacing(`"quantity": 2`, `"quantity": -2`),
	"a negative amount":            replacing(`"amount": 5998`, `"amount": -5998`),
	"an amount that overflows":     replacing(`"amount": 5998`, `"amount": 92233720368547758080`),
	"no version":                   replacing(`"order_version": 1,`, ``),
	"a negative version":           replacing(`"order_version": 1`, `"order_version": -1`),
	"a version beyond the limit":   replacing(`"order_version": 1`, `"order_version": 3000000000`),
	"an order id that is no UUID":  replacing(`"order_id": "`, `"order_id": "x`),
	"a control character":          replacing(`sku123`, `sku\u0000`),
	"an unknown currency":          replacing(`GBP`, `ABCD`),
	"an injected header":           replacing(`bad@example.com`, `bad@example.com\r\nBcc: all@example.com`),
	"two recipients":               replacing(`bad@example.com`, `bad@example.com, all@example.com`),
	"an address with a name":       replacing(`bad@example.com`, `Bad <bad@example.com>`),
	"no message id":                func(m *amqp.Publishing) { m.MessageId = "" },
	"a message id that is no UUID": func(m *amqp.Publishing) { m.MessageId = "42" },
	"a time that is none":          replacing(`2026-01-02T03:04:05.678901Z`, `2026-13-02T03:04:05Z`),
}

func replacing(old, replacement string) func(*amqp.Publishing) {
	return func(m *amqp.Publishing) {
		if !strings.Contains(string(m.Body), old) {
			panic(old + " is not in the body")
		}
		m.Body = []byte(strings.Replace(string(m.Body), old, replacement, 1))
	}
}

// TestP9PoisonMessagesAreDeadLetteredAndOthersFlow publishes a hundred good messages, and a
// bad message before each one.
func TestP9PoisonMessagesAreDeadLetteredAndOthersFlow(t *testing.T) {
	t.Parallel()
	const n = 100
	s := newSystem(t)
	copies := s.recordExchanges(quickTiers...)
	kinds := slices.Sorted(maps.Keys(poisonMessages))
	good, bad := newOrders(n), map[string]amqp.Publishing{}
	var all []amqp.Publishing
	for i := range n {
		kind := kinds[i%len(kinds)]
		m := orderFor("bad@example.com")
		m.CorrelationId, m.Headers = fmt.Sprintf("%d: %s", i, kind), amqp.Table{"kept": kind, "x-mine": "yes", "x-death": []any{}, "CC": []any{"order.confirmed"}}
		poisonMessages[kind](&m)
		bad[m.CorrelationId] = m
		all = append(all, m, good[i])
	}
	service := s.startConsumer()
	s.publish(all...)
	s.awaitCount(s.notificationsDB, n, sentCount)
	emails := s.mail.emails()
	for kind, m := range bad {
		if len(emails["<"+m.MessageId+"@example.com>"]) > 0 {
			t.Errorf("%s: an e-mail was sent", kind)
		}
	}
	s.wantOneEmailEach(good...)

	for _, d := range s.takeMessages(deadLetterQueue, n) {
		m, known := bad[d.CorrelationId]
		if !known {
			t.Errorf("dead letter %q is not one of the bad messages", d.CorrelationId)
			continue
		}
		delete(bad, d.CorrelationId)
		wantUnchanged(t, d, m)
		wantHeaders(t, d, amqp.Table{
			"kept": m.Headers["kept"], "x-mine": "yes", "original-cc": []any{"order.confirmed"}, "original-exchange": eventsExchange, "retry-count": int64(0), "failure-code": "malformed",
		})
		if t.Failed() {
			t.Fatalf("for dead letter %s", d.CorrelationId)
		}
	}
	if got := copies.await(0); len(got) != 0 {
		t.Errorf("%d messages went to a retry queue, the first is %v", len(got), got[0].CorrelationId)
	}
	service.awaitMetric(`consumer_messages_total{outcome="dead_lettered"}`, n)
	s.wantEffects(n)
}
