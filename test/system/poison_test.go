package system

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

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
	"an unknown type":              func(m *amqp.Publishing) { m.Type = "order.unknown" },
	"no type":                      func(m *amqp.Publishing) { m.Type = "" },
	"no message id":                func(m *amqp.Publishing) { m.MessageId = "" },
	"a message id that is no UUID": func(m *amqp.Publishing) { m.MessageId = "42" },
	"no timestamp":                 func(m *amqp.Publishing) { m.Timestamp = time.Time{} },
	"a time out of range":          func(m *amqp.Publishing) { m.Timestamp = time.Unix(1<<50, 0) },
	"a time before the calendar":   func(m *amqp.Publishing) { m.Timestamp = time.Unix(-1<<50, 0) },
	"a time that wraps around":     func(m *amqp.Publishing) { m.Timestamp = time.Unix(-18444948681709, 0) },
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
		m.CorrelationId, m.Headers = fmt.Sprintf("%d: %s", i, kind), amqp.Table{"kept": kind, "x-mine": "no"}
		poisonMessages[kind](&m)
		bad[m.CorrelationId] = m
		all = append(all, m, good[i])
	}
	service := s.startConsumer(quickRetries)
	s.publish(all...)
	s.awaitCount(s.notificationsDB, n, sentCount+" AND recipient LIKE 'customer-%'")
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
			"kept": m.Headers["kept"], "original-exchange": eventsExchange, "retry-count": int64(0), "failure-code": "malformed",
		})
		if t.Failed() {
			t.Fatalf("for dead letter %s", d.CorrelationId)
		}
	}
	if got := copies.await(0); len(got) != 0 {
		t.Errorf("%d messages went to a retry queue, the first is %v", len(got), got[0].CorrelationId)
	}
	service.awaitMetric("consumer_dlq_published_total", n)
	if rows := queryValue[int](s, s.notificationsDB, "SELECT count(*) FROM processed_messages"); rows != n {
		t.Errorf("%d messages had an effect, want %d", rows, n)
	}
}

// TestP9ABadMessageIsDeadLetteredAndDelaysNoOther publishes a malformed message, and a good
// one after it.
func TestP9ABadMessageIsDeadLetteredAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.subscribe()
	s.runNotifications().awaitLog("taking messages")
	bad := amqp.Delivery{
		MessageId: "no-uuid", Type: "order.created", RoutingKey: "order.created", Body: []byte("{\"order_id\": \xff"),
		Headers: amqp.Table{"kept": "yes", "x-death": []any{}, "CC": []any{"order.confirmed"}},
	}
	s.publish(publishingOf(bad))
	s.place(s.runOrders())
	s.awaitCount(s.notificationsDB, 1, sentCount)

	dead := s.takeMessages(deadLetterQueue, 1)[0]
	if string(dead.Body) != string(bad.Body) || dead.RoutingKey != bad.RoutingKey || dead.MessageId != bad.MessageId {
		t.Errorf("the dead letter is %+v, want %+v", dead, bad)
	}
	if dead.Headers["kept"] != "yes" || dead.Headers["failure-reason"] == nil || dead.Headers["failed-at"] == nil {
		t.Errorf("its headers are %v", dead.Headers)
	}
	for _, name := range []string{"x-death", "CC"} {
		if _, kept := dead.Headers[name]; kept {
			t.Errorf("the header %s was copied", name)
		}
	}
}
