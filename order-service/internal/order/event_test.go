package order

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
)

func TestEventsAreWhatTheContractSays(t *testing.T) {
	t.Parallel()
	o := Order{
		ID: uuid.MustParse("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"), Version: 1,
		CustomerID: uuid.MustParse("3f2504e0-4f89-41d3-9a0c-0305e82c3301"), CustomerEmail: "ada@example.com",
		ProductID: "sku123", Quantity: 2, Amount: NewMoney(5998, "GBP"), Status: Pending,
	}
	// The clock of the event is the database's, in whatever zone it is set to.
	occurred := time.Date(2026, 1, 2, 8, 34, 5, 678901000, time.FixedZone("IST", 5*3600+1800))

	m, err := event(Created, o, occurred)
	if err != nil {
		t.Fatal(err)
	}
	want, err := contract.Events.ReadFile(m.EventKey + ".json")
	if err != nil {
		t.Fatal(err)
	}
	golden := jsontext.Value(want)
	if err := golden.Compact(); err != nil {
		t.Fatal(err)
	}
	if string(m.Payload) != string(golden) {
		t.Errorf("payload\n%s, want\n%s", m.Payload, golden)
	}
	if m.AggregateID != o.ID || m.AggregateVersion != o.Version || m.AggregateType != Aggregate || m.ID == uuid.Nil {
		t.Errorf("message %+v", m)
	}
}
