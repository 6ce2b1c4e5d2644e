package system

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// orderEvent is an event as order-service publishes it. Each event has its own e-mail
// address, so that the mail server can tell them apart.
type orderEvent struct {
	id, order uuid.UUID
	key       string
	version   int
}

// newEvents returns the first events of n orders.
func newEvents(n int) (events []orderEvent) {
	for range n {
		events = append(events, orderEvent{uuid.New(), uuid.New(), createdKey, 1})
	}
	return events
}

// lifecycleEvents returns the three events of one order.
func lifecycleEvents() []orderEvent {
	order := uuid.New()
	return []orderEvent{
		{uuid.New(), order, "order.created", 1},
		{uuid.New(), order, "order.confirmed", 2},
		{uuid.New(), order, "order.cancelled", 3},
	}
}

func (e orderEvent) address() string   { return e.id.String() + "@customer.example" }
func (e orderEvent) messageID() string { return "<" + e.id.String() + "@example.com>" }

func (e orderEvent) publishing() amqp.Publishing {
	body := fmt.Sprintf(`{"order_id": %q, "order_version": %d, "customer_email": %q, "product_id": "sku123", "quantity": 1, "amount": 2999, "currency": "GBP"}`,
		e.order, e.version, e.address())
	return amqp.Publishing{
		MessageId: e.id.String(), Type: e.key, ContentType: "application/json", Timestamp: time.Now(),
		DeliveryMode: amqp.Persistent, Body: []byte(body),
	}
}

// publishUntilRouted publishes the events in this order, and repeats each one until a queue
// takes it.
func (s *system) publishUntilRouted(events ...orderEvent) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) (err error) {
		returned := c.NotifyReturn(make(chan amqp.Return, 1))
		for _, e := range events {
			routed := false
			poll(20*time.Millisecond, awaitTimeout, func() bool {
				routed, err = publishRouted(c, returned, e.key, e.publishing())
				return routed || err != nil
			})
			if err != nil {
				return err
			}
			if !routed {
				return errors.New("no queue takes the event")
			}
		}
		return nil
	})
}

// wantOnce wants one effect of each of these events and no other: one row in each table,
// one e-mail, and no dead letter.
func (s *system) wantOnce(events []orderEvent) {
	s.Helper()
	s.wantEffects(len(events))
	s.wantOneEmailEach(publishings(events)...)
	s.wantNoDeadLetters()
}

func publishings(events []orderEvent) (messages []amqp.Publishing) {
	for _, e := range events {
		messages = append(messages, e.publishing())
	}
	return messages
}

// outcomes counts the deliveries with one of these outcomes, over all processes.
func outcomes(processes []*service, outcomes ...string) (n int) {
	for _, p := range processes {
		for _, outcome := range outcomes {
			n += int(p.metric(fmt.Sprintf("consumer_messages_total{outcome=%q}", outcome)))
		}
	}
	return n
}

// awaitHandled waits until the processes have handled at least n deliveries.
func (s *system) awaitHandled(n int, processes ...*service) {
	s.Helper()
	got := 0
	if !eventually(awaitTimeout, func() bool { got = outcomes(processes, "handled"); return got >= n }) {
		s.Fatalf("%d deliveries were handled, want %d", got, n)
	}
}
