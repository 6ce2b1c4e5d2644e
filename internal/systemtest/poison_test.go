package systemtest

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

// poisons are ways in which a message can be bad. The body has a good order's JSON when
// they get it.
var poisons = map[string]func(*amqp.Publishing){
	"no JSON":                 func(m *amqp.Publishing) { m.Body = []byte("order_id=1") },
	"half a JSON":             func(m *amqp.Publishing) { m.Body = m.Body[:len(m.Body)/2] },
	"JSON, and more":          func(m *amqp.Publishing) { m.Body = append(m.Body, "{}"...) },
	"no object":               func(m *amqp.Publishing) { m.Body = []byte("[]") },
	"null":                    func(m *amqp.Publishing) { m.Body = []byte("null") },
	"nothing":                 func(m *amqp.Publishing) { m.Body = nil },
	"deep":                    func(m *amqp.Publishing) { m.Body = bytes.Repeat([]byte("["), 100_000) },
	"large":                   func(m *amqp.Publishing) { m.Body = bytes.Repeat([]byte("x"), 1<<20) },
	"invalid UTF-8":           with(`sku123`, "sku\xff"),
	"a name twice":            with(`"currency"`, `"quantity": 1, "currency"`),
	"a number as text":        with(`"quantity": 2`, `"quantity": "2"`),
	"a fraction":              with(`"quantity": 2`, `"quantity": 2.5`),
	"a negative quantity":     with(`"quantity": 2`, `"quantity": -2`),
	"a negative amount":       with(`"amount": 5998`, `"amount": -5998`),
	"an overflow":             with(`"amount": 5998`, `"amount": 92233720368547758080`),
	"no version":              with(`"order_version": 1,`, ``),
	"a negative version":      with(`"order_version": 1`, `"order_version": -1`),
	"an unbelievable version": with(`"order_version": 1`, `"order_version": 3000000000`),
	"an order that is no id":  with(`"order_id": "`, `"order_id": "x`),
	"a control character":     with(`sku123`, `sku\u0000`),
	"a currency of the moon":  with(`GBP`, `moons`),
	"an injected header":      with(`bad@example.com`, `bad@example.com\r\nBcc: all@example.com`),
	"two recipients":          with(`bad@example.com`, `bad@example.com, all@example.com`),
	"a name for an address":   with(`bad@example.com`, `Bad <bad@example.com>`),
	"an unknown type":         func(m *amqp.Publishing) { m.Type = "order.eaten" },
	"no type":                 func(m *amqp.Publishing) { m.Type = "" },
	"no id":                   func(m *amqp.Publishing) { m.MessageId = "" },
	"an id of another kind":   func(m *amqp.Publishing) { m.MessageId = "42" },
	"no timestamp":            func(m *amqp.Publishing) { m.Timestamp = time.Time{} },
	"a time beyond all":       func(m *amqp.Publishing) { m.Timestamp = time.Unix(1<<50, 0) },
}

func with(old, replacement string) func(*amqp.Publishing) {
	return func(m *amqp.Publishing) {
		if !strings.Contains(string(m.Body), old) {
			panic(old + " is not in the body")
		}
		m.Body = []byte(strings.Replace(string(m.Body), old, replacement, 1))
	}
}

// TestP9PoisonEndsInTheDeadLettersAtOnceAndTheGoodOnesFlow puts a bad message before each
// of a hundred good ones.
func TestP9PoisonEndsInTheDeadLettersAtOnceAndTheGoodOnesFlow(t *testing.T) {
	t.Parallel()
	const n = 100
	s := newSystem(t)
	copies := s.witness(quickTiers...)
	kinds := slices.Sorted(maps.Keys(poisons))
	good, bad := ordersOf(n), map[string]amqp.Publishing{}
	var all []amqp.Publishing
	for i := range n {
		kind := kinds[i%len(kinds)]
		m := orderOf("bad@example.com")
		m.CorrelationId, m.Headers = fmt.Sprintf("%d: %s", i, kind), amqp.Table{"kept": kind, "x-mine": "no"}
		poisons[kind](&m)
		bad[m.CorrelationId] = m
		all = append(all, m, good[i])
	}
	service := s.consuming(quick)
	s.emit(all...)
	s.awaitCount(s.notifications, n, sent+" AND recipient LIKE 'customer-%'")
	letters := s.mail.letters()
	for kind, m := range bad {
		if len(letters["<"+m.MessageId+"@example.com>"]) > 0 {
			t.Errorf("%s: an e-mail was sent", kind)
		}
	}
	s.wantOneLetterEach(good...)

	for _, d := range s.take(deadLetters, n) {
		m, known := bad[d.CorrelationId]
		if !known {
			t.Errorf("dead letter %q was none of the bad ones", d.CorrelationId)
			continue
		}
		delete(bad, d.CorrelationId)
		wantUnchanged(t, d, m)
		wantHeaders(t, d, amqp.Table{
			"kept": m.Headers["kept"], "original-exchange": exchange, "retry-count": int64(0), "failure-code": "malformed",
		})
		if t.Failed() {
			t.Fatalf("that was %s", d.CorrelationId)
		}
	}
	if got := copies.await(0); len(got) != 0 {
		t.Errorf("%d were tried again: %v", len(got), got[0].CorrelationId)
	}
	service.awaitMetric("consumer_dlq_published_total", n)
	if rows := one[int](s, s.notifications, "SELECT count(*) FROM processed_messages"); rows != n {
		t.Errorf("%d messages had an effect, want %d", rows, n)
	}
}
