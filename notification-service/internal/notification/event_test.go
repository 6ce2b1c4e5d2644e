package notification

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestParseReadsWhatTheContractSays(t *testing.T) {
	t.Parallel()
	files, err := contract.Events.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		body, err := contract.Events.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		key := strings.TrimSuffix(file.Name(), ".json")
		e, err := (*Service)(nil).Parse(rabbitmq.Message{Type: key, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		want := Event{
			Key: key, OrderID: uuid.MustParse("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"), OrderVersion: e.OrderVersion,
			CustomerEmail: "ada@example.com", ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP",
			OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC),
		}
		if e != want {
			t.Errorf("%s: %+v, want %+v", key, e, want)
		}
	}
}

func TestParseRefusesWhatItCannotTrust(t *testing.T) {
	t.Parallel()
	const good = `{"order_id":"0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b","order_version":1,"customer_email":"","product_id":"a","quantity":1,"amount":1,"currency":"GBP","new_field":1}`
	if _, err := (*Service)(nil).Parse(rabbitmq.Message{Type: OrderCreated, Body: []byte(good)}); err != nil {
		t.Fatalf("refused a good one: %v", err)
	}
	tests := map[string]rabbitmq.Message{
		"empty":            {Type: OrderCreated},
		"not JSON":         {Type: OrderCreated, Body: []byte("hello")},
		"cut off":          {Type: OrderCreated, Body: []byte(good[:40])},
		"trailing":         {Type: OrderCreated, Body: []byte(good + "x")},
		"not UTF-8":        {Type: OrderCreated, Body: []byte(strings.Replace(good, `"a"`, "\"\xff\"", 1))},
		"an array":         {Type: OrderCreated, Body: []byte("[]")},
		"an unknown type":  {Type: "order.eaten", Body: []byte(good)},
		"no order":         {Type: OrderCreated, Body: []byte(strings.Replace(good, "order_id", "other", 1))},
		"a version of 0":   {Type: OrderCreated, Body: []byte(strings.Replace(good, `"order_version":1`, `"order_version":0`, 1))},
		"a negative total": {Type: OrderCreated, Body: []byte(strings.Replace(good, `"amount":1`, `"amount":-1`, 1))},
		"a line break":     {Type: OrderCreated, Body: []byte(strings.Replace(good, `"a"`, `"a\r\nb"`, 1))},
		"a NUL":            {Type: OrderCreated, Body: []byte(strings.Replace(good, `"a"`, `"a\u0000"`, 1))},
		"no currency":      {Type: OrderCreated, Body: []byte(strings.Replace(good, "GBP", "<b>", 1))},
		"a NUL address":    {Type: OrderCreated, Body: []byte(strings.Replace(good, `"customer_email":""`, `"customer_email":"a\u0000@b"`, 1))},
		"a bad address":    {Type: OrderCreated, Body: []byte(strings.Replace(good, `"customer_email":""`, `"customer_email":"a\r\nBcc: b@c"`, 1))},
	}
	for name, m := range tests {
		if _, err := (*Service)(nil).Parse(m); err == nil {
			t.Errorf("took one that is %s", name)
		}
	}
}

// TestParseRefusesATimeThatTheDatabaseCannotRead: it would make the note fail that an e-mail
// is sent.
func TestParseRefusesATimeThatTheDatabaseCannotRead(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	for occurred, good := range map[string]bool{
		"2026-01-02T03:04:05.678901Z":  true,
		"2026-01-02T03:04:05+14:00":    true,
		"2026-01-02T03:04:05+15:59":    true,
		"2026-01-02T03:04:05-15:59":    true,
		"2026-01-02T03:04:05+16:00":    false,
		"2026-01-02T03:04:05-16:00":    false,
		"2026-01-02T03:04:05+23:59":    false,
		"0000-12-31T03:04:05Z":         false,
		"0001-01-01T00:00:00+01:00":    false, // the year before
		"9999-12-31T23:59:59-01:00":    false, // the year after
		"9999-12-31T23:59:59.9999999Z": true,
	} {
		body := `{"order_id":"` + uuid.NewString() + `","order_version":1,"product_id":"a","quantity":1,"amount":1,"currency":"GBP","occurred_at":"` + occurred + `"}`
		e, err := d.service.Parse(rabbitmq.Message{Type: OrderCreated, Body: []byte(body)})
		if (err == nil) != good {
			t.Errorf("%s: error %v", occurred, err)
		}
		if err != nil {
			continue
		}
		n := d.want(Request{ID: uuid.New(), Event: e, First: true}, Sending, true)
		if err := d.service.sendAndMark(t.Context(), n); err != nil {
			t.Errorf("%s: %v", occurred, err)
		}
	}
}
