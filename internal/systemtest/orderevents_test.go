package systemtest

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// orderEvent is an event as order-service publishes it. Each goes to an address of its
// own, so that the mail server can tell them apart.
type orderEvent struct {
	id, order uuid.UUID
	key       string
	version   int
}

// newEvents are the first events of so many orders.
func newEvents(n int) (events []orderEvent) {
	for range n {
		events = append(events, orderEvent{uuid.New(), uuid.New(), "order.created", 1})
	}
	return events
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

// declareExchange makes what belongs to order-service, for tests that publish themselves.
func (s *system) declareExchange() {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		return c.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)
	})
}

// post publishes the events in this order, each again until a queue has it.
func (s *system) post(events ...orderEvent) {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		returned := c.NotifyReturn(make(chan amqp.Return, 1))
		if err := c.Confirm(false); err != nil {
			return err
		}
		ask := time.NewTicker(20 * time.Millisecond)
		defer ask.Stop()
		for _, e := range events {
			for deadline := time.Now().Add(patience); ; <-ask.C {
				routed, err := publishOnce(c, returned, e)
				if err != nil {
					return err
				}
				if routed {
					break
				}
				if time.Now().After(deadline) {
					return errors.New("no queue takes the event")
				}
			}
		}
		return nil
	})
}

// publishOnce reports whether a queue took the event. What none took is returned before
// it is confirmed.
func publishOnce(c *amqp.Channel, returned <-chan amqp.Return, e orderEvent) (routed bool, err error) {
	confirmation, err := c.PublishWithDeferredConfirm(exchange, e.key, true, false, e.publishing())
	if err != nil {
		return false, err
	}
	acked := confirmation.Wait()
	select {
	case <-returned:
		return false, nil
	default:
		return acked, nil
	}
}

// wantOnce wants that these events, and no others, have had their effect: one row in
// each table, one e-mail, and no dead letter.
func (s *system) wantOnce(events []orderEvent) {
	s.Helper()
	for _, query := range []string{"SELECT count(*) FROM notifications", sent, "SELECT count(*) FROM processed_messages"} {
		if got := one[int](s, s.notifications, query); got != len(events) {
			s.Errorf("%s counts to %d, want %d", query, got, len(events))
		}
	}
	letters, wrong := s.mail.letters(), 0
	for _, e := range events {
		if len(letters[e.messageID()]) != 1 {
			wrong++
		}
	}
	if wrong > 0 || len(letters) != len(events) {
		s.Errorf("e-mails of %d events, want of %d; %d events have not exactly one", len(letters), len(events), wrong)
	}
	s.wantNoneDead()
}

// wantNoneDead wants that no message became a dead letter.
func (s *system) wantNoneDead() {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		dead, ok, err := c.Get(deadLetters, true)
		if ok {
			s.Errorf("a dead letter: %s %v", dead.MessageId, dead.Headers)
		}
		return err
	})
}

// outcomes counts the deliveries that came to one of these ends, over all processes.
func outcomes(processes []*service, ends ...string) (n int) {
	for _, p := range processes {
		for _, end := range ends {
			n += int(p.metric(fmt.Sprintf("consumer_messages_total{outcome=%q}", end)))
		}
	}
	return n
}

// awaitOutcomes waits until at least so many deliveries came to one of these ends.
func (s *system) awaitOutcomes(n int, processes []*service, ends ...string) {
	s.Helper()
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		got := outcomes(processes, ends...)
		if got >= n {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%d deliveries ended as %v, want %d", got, ends, n)
		}
	}
}

// awaitReady waits until so many messages are in the service's queue, and in no hand.
func (s *system) awaitReady(n int) {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		got := s.ready()
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%d messages in the queue, want %d", got, n)
		}
	}
}

func (s *system) ready() (n int) {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		q, err := c.QueueDeclarePassive(mainQueue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n
}

// hold keeps the mail server from answering for this event until the test says what.
// asked tells each time that it is asked.
func (m *mailServer) hold(e orderEvent) (asked <-chan struct{}, answer func(error)) {
	asking, answers := make(chan struct{}, 100), make(chan error, 1)
	m.refuse(e.address(), func(try int) error {
		asking <- struct{}{}
		if try > 1 {
			return nil
		}
		return <-answers
	})
	return asking, func(err error) { answers <- err }
}
