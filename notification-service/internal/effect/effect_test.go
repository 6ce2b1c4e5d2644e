package effect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestP5TheEffectOfEachMessageIsRecordedOnce, however often it is delivered.
func TestP5TheEffectOfEachMessageIsRecordedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := uuid.New(), uuid.New()
	a, b := event(one, 1), event(other, 1)
	a.Timestamp = time.Now().AddDate(0, -3, 0) // the inbox's default retention would refuse it
	f.handle(a)
	f.handle(a, b, b)
	f.handle(b, a)
	f.wantRecorded(a, b)
	f.wantEmails(one, 1)
	f.wantEmails(other, 1)
	f.wantCounted(2, 0, 4)
	if *f.woken != 2 {
		t.Errorf("the relay was woken %d times, for two batches with e-mails", *f.woken)
	}
}

// TestAnEmailHasAllThatTheRelayNeeds: the message's id and trace, and the recipient's domain.
func TestAnEmailHasAllThatTheRelayNeeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	order := uuid.New()
	m := event(order, 7)
	m.Headers = map[string]any{"traceparent": trace}
	f.handle(m)
	var (
		e          outbox.Event
		traceOfRow string
	)
	err := f.pool.QueryRow(t.Context(), `SELECT id, topic, aggregate, aggregate_id, version, payload, traceparent, content_type, supersedes
		FROM outbox_events JOIN outbox_queue USING (id, topic, aggregate, aggregate_id, version)`).Scan(
		&e.ID, &e.Topic, &e.Aggregate, &e.AggregateID, &e.Version, &e.Payload, &traceOfRow, &e.ContentType, &e.Supersedes)
	if err != nil {
		t.Fatal(err)
	}
	if e.ID.String() != m.ID || e.Topic != "example.com" || e.Aggregate != "order" || e.AggregateID != order.String() ||
		e.Version != 7 || traceOfRow != trace || e.ContentType != "application/json" || !e.Supersedes {
		t.Errorf("%+v, trace %s", e, traceOfRow)
	}
	var about email.Order
	want := email.Order{
		Type: email.OrderCreated, OrderID: order, OrderVersion: 7, CustomerEmail: "ada@Example.com",
		OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ProductID: "sku123", Quantity: 1, Amount: 2999, Currency: "GBP",
	}
	if err := json.Unmarshal(e.Payload, &about); err != nil || about != want {
		t.Errorf("%+v, want %+v, error %v", about, want, err)
	}
}

// TestP7AnOrderThatIsTwiceInABatchGetsTheNewestEmail, in whatever order its events come.
func TestP7AnOrderThatIsTwiceInABatchGetsTheNewestEmail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := uuid.New(), uuid.New()
	batch := []rabbitmq.Message{event(one, 1), event(other, 3), event(one, 3), event(other, 1), event(one, 2), event(other, 2)}
	f.handle(batch...)
	f.wantRecorded(batch...)
	f.wantEmails(one, 3)
	f.wantEmails(other, 3)
	f.wantCounted(2, 4, 0)
}

// TestP7AnEventThatComesLateSendsNothing: it is recorded and counted.
func TestP7AnEventThatComesLateSendsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	first, newest, late := event(order, 1), event(order, 3), event(order, 2)
	f.handle(first)
	f.handle(newest)
	f.handle(late)
	f.wantRecorded(first, newest, late)
	f.wantEmails(order, 1, 3)
	f.wantCounted(2, 1, 0)
	if *f.woken != 2 {
		t.Errorf("the relay was woken %d times", *f.woken)
	}
}

// TestP7AVersionThatIsUsedTwiceIsOvertaken: order-service's database was restored to an earlier
// moment, and makes other events with versions that it has used already.
func TestP7AVersionThatIsUsedTwiceIsOvertaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order, both := uuid.New(), uuid.New()
	f.handle(event(order, 1), event(order, 2))
	f.handle(event(order, 2))
	f.handle(event(both, 5), event(both, 5))
	f.handle(event(order, 3))
	f.wantEmails(order, 2, 3)
	f.wantEmails(both, 5)
	f.wantCounted(3, 3, 0)
}

// TestP9ABadMessageOfABatchFailsAlone: the consumer tries the messages of a batch that fails one by
// one.
func TestP9ABadMessageOfABatchFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := uuid.New(), uuid.New()
	unknown := event(uuid.New(), 1)
	unknown.Type, unknown.Body = "order.shipped", []byte("\x08\x01") // a newer order-service may send it, in any form
	tooLong := event(uuid.New(), 1)
	tooLong.Body = []byte(strings.Replace(string(tooLong.Body), "sku123", strings.Repeat("x", 300<<10), 1))
	noDomain := eventFor(uuid.New(), 1, "ada@*") // the outbox's name for all topics
	good := []rabbitmq.Message{event(one, 1), event(other, 1)}
	for name, test := range map[string]struct {
		bad       rabbitmq.Message
		want      error
		permanent bool
	}{
		"an unknown type":      {unknown, email.ErrUnknownType, false},
		"too long":             {tooLong, outbox.ErrInvalid, true},
		"a domain for nothing": {noDomain, outbox.ErrInvalid, true},
	} {
		if err := email.Check(test.bad); err != nil {
			t.Errorf("%s: refused before: %v", name, err)
		}
		for _, batch := range [][]rabbitmq.Message{{good[0], test.bad, good[1]}, {test.bad}} {
			if err := f.handler.Handle(t.Context(), batch); !errors.Is(err, test.want) || errors.Is(err, rabbitmq.ErrPermanent) != test.permanent {
				t.Errorf("%s: %d messages: error %v", name, len(batch), err)
			}
		}
	}
	f.wantRecorded()
	f.wantCounted(0, 0, 0)
	for _, m := range good {
		f.handle(m)
	}
	f.wantRecorded(good...)
	f.wantEmails(one, 1)
	f.wantEmails(other, 1)
	f.wantCounted(2, 0, 0)
	if *f.woken != 2 {
		t.Errorf("the relay was woken %d times", *f.woken)
	}
}
