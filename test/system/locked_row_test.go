package system

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ALockedRowDeadLettersNoOtherMessage locks the row of one order's progress. Meanwhile
// the e-mails of all other messages in a burst are sent, and none is dead-lettered.
func TestP9ALockedRowDeadLettersNoOtherMessage(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startWarmConsumer(quickRetries)
	bad, order := orderFor("bad@example.com"), uuid.New()
	bad.Body = withOrder(bad.Body, order)
	_, err := s.notificationsDB.Exec(t.Context(), "INSERT INTO order_progress (order_id, last_version) VALUES ($1, 1)", order)
	must(t, err)
	lock, err := s.notificationsDB.Begin(t.Context())
	must(t, err)
	_, err = lock.Exec(t.Context(), "SELECT FROM order_progress WHERE order_id = $1 FOR UPDATE", order)
	must(t, err)

	const burst = 60
	many := newOrders(burst)
	s.publish(append(append(append([]amqp.Publishing{}, many[:burst/2]...), bad), many[burst/2:]...)...)
	s.wantCount(20*time.Second, s.notificationsDB, 1+burst, sentCount)
	must(t, lock.Rollback(t.Context()))
	for _, d := range s.takeMessages(deadLetterQueue, s.readyMessages(deadLetterQueue)) {
		if d.MessageId != bad.MessageId {
			t.Errorf("message %s is a dead letter: %v", d.MessageId, d.Headers)
		}
	}
}

// withOrder replaces the order id in the body of an event.
func withOrder(body []byte, order uuid.UUID) []byte {
	return orderID.ReplaceAll(body, []byte(`"order_id": "`+order.String()+`"`))
}

var orderID = regexp.MustCompile(`"order_id": *"[^"]*"`)
