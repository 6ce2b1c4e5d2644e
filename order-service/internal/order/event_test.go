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
		ID:         uuid.MustParse("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"),
		CustomerID: uuid.MustParse("3f2504e0-4f89-41d3-9a0c-0305e82c3301"), CustomerEmail: "ada@example.com",
		ProductID: "sku123", Quantity: 2, Amount: NewMoney(5998, "GBP"),
	}
	// The time comes from the database and may be in any time zone.
	occurred := time.Date(2026, 1, 2, 8, 34, 5, 678901000, time.FixedZone("IST", 5*3600+1800))

	for key, became := range map[string]struct {
		version int
		status  Status
	}{
		keyCreated: {1, Pending}, keyConfirmed: {2, Confirmed}, keyCancelled: {2, Cancelled},
	} {
		o.Version, o.Status = became.version, became.status
		m, err := event(key, o, occurred)
		if err != nil {
			t.Fatal(err)
		}
		if want := golden(t, key); string(m.Payload) != want {
			t.Errorf("%s\n%s, want\n%s", key, m.Payload, want)
		}
		if m.EventKey != key || m.AggregateID != o.ID || m.AggregateVersion != o.Version || m.AggregateType != Aggregate || m.ID == uuid.Nil {
			t.Errorf("%s: message %+v", key, m)
		}
	}
}

func golden(t *testing.T, key string) string {
	t.Helper()
	file, err := contract.Events.ReadFile(key + ".json")
	if err != nil {
		t.Fatal(err)
	}
	compact := jsontext.Value(file)
	if err := compact.Compact(); err != nil {
		t.Fatal(err)
	}
	return string(compact)
}
