package order

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
	"example.com/transactional-outbox/test/env/check"
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

	for topic, became := range map[string]struct {
		version int
		status  Status
	}{
		topicCreated: {1, Pending}, topicConfirmed: {2, Confirmed}, topicCancelled: {2, Cancelled},
	} {
		o.Version, o.Status = became.version, became.status
		e, err := event(topic, o, occurred)
		check.Must(t, err)
		if want := golden(t, topic); string(e.Payload) != want {
			t.Errorf("%s\n%s, want\n%s", topic, e.Payload, want)
		}
		if e.Topic != topic || e.AggregateID != o.ID.String() || e.Version != o.Version || e.Aggregate != Aggregate {
			t.Errorf("%s: event %+v", topic, e)
		}
	}
}

func golden(t *testing.T, topic string) string {
	t.Helper()
	file, err := contract.Events.ReadFile(topic + ".json")
	check.Must(t, err)
	compact := jsontext.Value(file)
	check.Must(t, compact.Compact())
	return string(compact)
}
