package system

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP8AnotherServiceSeesEachEventOnce binds the queue of another service to the same
// events, while notification-service meets all kinds of failures.
func TestP8AnotherServiceSeesEachEventOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, key := range []string{"order.created", "order.confirmed", "order.cancelled"} {
		s.declareBoundQueue("other-service", key, nil)
	}
	requeued := s.recordExchanges(requeueExchange)
	never, later := orderFor("never@example.com"), orderFor("later@example.com")
	mend := s.failOrders("P0001", never, later)
	unreadable, tooLarge := orderFor("x@example.com"), orderFor("y@example.com")
	unreadable.Body = []byte("{\"order_id\": \xff")
	tooLarge.Body = bytes.Repeat([]byte("x"), 2<<20) // the broker itself dead-letters it
	failing := []amqp.Publishing{never, later, unreadable, tooLarge}

	first := s.startConsumer("CONSUMER_GIVE_UP=1500ms")
	good := newOrders(30)
	s.publish(slices.Concat(good[:10], failing, good[10:20])...)
	requeued.await(2)
	mend(later)
	s.awaitCount(s.notificationsDB, 20+1, sentCount) // one of them is `later`
	dead := s.takeMessages(deadLetterQueue, 3)
	s.publish(good[20:]...)
	first.kill() // with messages in progress
	s.startConsumer()
	s.awaitCount(s.notificationsDB, 30+1, sentCount)
	s.awaitDeadLetters([]amqp.Publishing{s.replay(dead[0])})

	all := slices.Concat(good, failing)
	var want []string
	for _, m := range all {
		want = append(want, m.MessageId)
	}
	slices.Sort(want)
	seen := s.takeMessages("other-service", len(all))
	if got := messageIDs(seen); !slices.Equal(got, want) {
		t.Errorf("the other service saw %v, want %v", got, want)
	}
	for _, d := range seen {
		if d.Exchange != eventsExchange || d.Headers["retry-count"] != nil {
			t.Errorf("the other service saw a retry: %s %v", d.Exchange, d.Headers)
		}
	}
	requeued.await(2 + 1) // messages did come back to notification-service, and the replay
}

// replay publishes a dead letter to the requeue exchange, as operators do. It has a new id,
// because the consumer knows the old one already.
func (s *system) replay(d amqp.Delivery) amqp.Publishing {
	s.Helper()
	m := amqp.Publishing{
		MessageId: uuid.NewString(), Type: d.Type, Timestamp: d.Timestamp, DeliveryMode: amqp.Persistent, Body: []byte("no event"),
	}
	s.withChannel(func(c *amqp.Channel) error {
		_, err := publishConfirmed(c, requeueExchange, d.RoutingKey, m)
		return err
	})
	return m
}
