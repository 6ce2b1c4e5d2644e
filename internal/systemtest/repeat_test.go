package systemtest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP5P6ADuplicateHasNoSecondEffect delivers one message three times more, at once.
func TestP5P6ADuplicateHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.tap()
	s.runNotifications().await("taking messages")
	s.place(s.runOrders())
	copies.awaitMessages(1)
	s.awaitCount(s.notifications, 1, sent)

	copies.mu.Lock()
	message := copies.last
	copies.mu.Unlock()
	for range 3 {
		s.publish(copies, message)
	}
	s.awaitIdle()
	if got := one[int](s, s.notifications, "SELECT count(*) FROM notifications"); got != 1 {
		t.Errorf("%d notifications, want one", got)
	}
	if got := len(s.mail.letters()); got != 1 {
		t.Errorf("e-mails of %d messages, want of one", got)
	}
	for id, letters := range s.mail.letters() {
		if len(letters) != 1 {
			t.Errorf("%d e-mails with id %s, want one", len(letters), id)
		}
	}
	s.wantNoneDead() // the duplicates were known, and not refused
}

// TestP9ABadMessageEndsInTheDeadLettersAndHoldsUpNobody sends a message that nobody
// can read, and a good one behind it.
func TestP9ABadMessageEndsInTheDeadLettersAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.tap()
	s.runNotifications().await("taking messages")
	bad := amqp.Delivery{
		MessageId: "no-uuid", Type: "order.created", RoutingKey: "order.created", Body: []byte("{\"order_id\": \xff"),
		Headers: amqp.Table{"kept": "yes", "x-death": []any{}, "CC": []any{"order.confirmed"}},
	}
	s.publish(copies, bad)
	s.place(s.runOrders())
	s.awaitCount(s.notifications, 1, sent)

	dead := s.awaitDeadLetter(copies)
	if string(dead.Body) != string(bad.Body) || dead.RoutingKey != bad.RoutingKey || dead.MessageId != bad.MessageId {
		t.Errorf("the dead letter is %+v, and was %+v", dead, bad)
	}
	if dead.Headers["kept"] != "yes" || dead.Headers["failure-reason"] == nil || dead.Headers["failed-at"] == nil {
		t.Errorf("its headers are %v", dead.Headers)
	}
	for _, name := range []string{"x-death", "CC"} {
		if _, kept := dead.Headers[name]; kept {
			t.Errorf("the header %s was carried over", name)
		}
	}
}

// TestP9AMessageTooLargeToCopyEndsInTheDeadLettersAsWell is for what other programs
// publish: the broker has limits of its own.
func TestP9AMessageTooLargeToCopyEndsInTheDeadLettersAsWell(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.tap()
	s.runNotifications().await("taking messages")
	large := amqp.Delivery{
		MessageId: uuid.NewString(), Type: "order.created", RoutingKey: "order.created",
		Body: bytes.Repeat([]byte("x"), 2<<20),
	}
	s.publish(copies, large)
	dead := s.awaitDeadLetter(copies)
	if !bytes.Equal(dead.Body, large.Body) || dead.MessageId != large.MessageId || dead.RoutingKey != large.RoutingKey {
		t.Errorf("a dead letter of %d bytes, %s, %s", len(dead.Body), dead.MessageId, dead.RoutingKey)
	}
}

// awaitDeadLetter takes the next message of the dead-letter queue.
func (s *system) awaitDeadLetter(p *tap) amqp.Delivery {
	s.Helper()
	channel := p.dial(s.brokerURL)
	must(s.T, channel.Qos(1, 0, false))
	deliveries, err := channel.Consume("notification-service.dlq", "", false, false, false, false, nil)
	must(s.T, err)
	select {
	case d := <-deliveries:
		must(s.T, d.Ack(false))
		return d
	case <-time.After(patience):
		s.Fatal("the dead-letter queue stays empty")
		return amqp.Delivery{}
	}
}

// publish sends a message again, as it was, and waits for the confirm.
func (s *system) publish(p *tap, d amqp.Delivery) {
	s.Helper()
	channel := p.dial(s.brokerURL)
	confirm, err := channel.PublishWithDeferredConfirm(exchange, d.RoutingKey, true, false, amqp.Publishing{
		MessageId: d.MessageId, Type: d.Type, Timestamp: d.Timestamp, Headers: d.Headers, Body: d.Body, DeliveryMode: amqp.Persistent,
	})
	must(s.T, err)
	if acked, err := confirm.WaitContext(context.WithoutCancel(s.Context())); err != nil || !acked {
		s.Fatalf("not confirmed: %v", err)
	}
}
