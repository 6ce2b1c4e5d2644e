package email_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
)

const messageID = "0199a0b1-c2d3-7e4f-8a5b-000000000042"

func TestParseReadsWhatTheContractSays(t *testing.T) {
	t.Parallel()
	files, err := contract.Events.ReadDir(".")
	if err != nil || len(files) != len(email.Topics) {
		t.Fatalf("%d files for %d topics, error %v", len(files), len(email.Topics), err)
	}
	for _, file := range files {
		e := contractEvent(t, strings.TrimSuffix(file.Name(), ".json"))
		want := email.Order{
			MessageID: uuid.MustParse(messageID), Type: e.Type,
			OrderID: uuid.MustParse("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"), OrderVersion: e.OrderVersion,
			CustomerEmail: "ada@example.com", ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP",
			OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC),
		}
		if e != want {
			t.Errorf("%s: %+v, want %+v", file.Name(), e, want)
		}
	}
}

// contractEvent is the example of an event in package contract.
func contractEvent(t *testing.T, topic string) email.Order {
	t.Helper()
	body, err := contract.Events.ReadFile(topic + ".json")
	check.Must(t, err)
	e, err := email.Parse(rabbitmq.Message{ID: messageID, Type: topic, Body: body})
	check.Must(t, err)
	return e
}

const good = `{"order_id":"0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b","order_version":1,"customer_email":"","product_id":"a","quantity":1,"amount":1,"currency":"GBP","new_field":1}`

func TestP9CheckRefusesWhatItCannotTrust(t *testing.T) {
	t.Parallel()
	if err := email.Check(rabbitmq.Message{ID: messageID, Type: email.OrderCreated, Body: []byte(good)}); err != nil {
		t.Fatalf("refused a good one: %v", err)
	}
	changed := func(old, replacement string) string { return strings.Replace(good, old, replacement, 1) }
	for name, body := range map[string]string{
		"empty":              "",
		"not JSON":           "hello",
		"cut off":            good[:40],
		"trailing":           good + "x",
		"not UTF-8":          changed(`"a"`, "\"\xff\""),
		"an array":           "[]",
		"no order":           changed("order_id", "other"),
		"a version of 0":     changed(`"order_version":1`, `"order_version":0`),
		"a large version":    changed(`"order_version":1`, `"order_version":2147483648`),
		"no product":         changed(`"a"`, `""`),
		"a quantity of 0":    changed(`"quantity":1`, `"quantity":0`),
		"a negative total":   changed(`"amount":1`, `"amount":-1`),
		"a line break":       changed(`"a"`, `"a\r\nb"`),
		"a NUL":              changed(`"a"`, `"a\u0000"`),
		"no currency":        changed("GBP", "<b>"),
		"a NUL address":      changed(`"customer_email":""`, `"customer_email":"a\u0000@b"`),
		"a bad address":      changed(`"customer_email":""`, `"customer_email":"a\r\nBcc: b@c"`),
		"two addresses":      changed(`"customer_email":""`, `"customer_email":"a@b, c@d"`),
		"an address's name":  changed(`"customer_email":""`, `"customer_email":"Ada <a@b>"`),
		"no address at all":  changed(`"customer_email":""`, `"customer_email":"ada"`),
		"a time of no clock": changed(`"quantity"`, `"occurred_at":"yesterday","quantity"`),
	} {
		if err := email.Check(rabbitmq.Message{ID: messageID, Type: email.OrderCreated, Body: []byte(body)}); err == nil {
			t.Errorf("took one that has, or is, %s", name)
		}
	}
	for _, id := range []string{"", "17", uuid.Nil.String(), strings.ToUpper(messageID), "urn:uuid:" + messageID, "{" + messageID + "}"} {
		if err := email.Check(rabbitmq.Message{ID: id, Type: email.OrderCreated, Body: []byte(good)}); err == nil {
			t.Errorf("took the id %q", id)
		}
	}
}
