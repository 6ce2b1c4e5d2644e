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
	good, never, later := newEvents(30), newEvents(1)[0], newEvents(1)[0]
	s.failOrder(never)
	mend := s.failOrder(later)
	tooLarge := malformed()
	tooLarge.Body = bytes.Repeat([]byte("x"), 2<<20) // the broker itself dead-letters it
	failing := []amqp.Publishing{never.publishing(), later.publishing(), malformed(), tooLarge}

	first := s.startConsumer("CONSUMER_GIVE_UP=1500ms")
	s.publish(slices.Concat(publishings(good[:10]), failing, publishings(good[10:20]))...)
	requeued.await(2)
	mend()
	s.awaitCount(s.notificationsDB, 20+1, sentCount) // one of them is `later`
	dead := s.takeMessages(deadLetterQueue, 3)
	s.publish(publishings(good[20:])...)
	first.kill() // with messages in progress
	s.startConsumer()
	s.awaitCount(s.notificationsDB, 30+1, sentCount)

	s.replay(dead[0])
	s.takeMessages(deadLetterQueue, 1)
	requeued.await(2 + 1) // messages did come back to notification-service, and the replay

	want := messageIDs(slices.Concat(publishings(good), failing))
	var seen []amqp.Publishing
	for _, d := range s.takeMessages("other-service", len(want)) {
		seen = append(seen, amqp.Publishing{MessageId: d.MessageId})
		if d.Exchange != eventsExchange || d.Headers["retry-count"] != nil {
			t.Errorf("the other service saw a retry: %s %v", d.Exchange, d.Headers)
		}
	}
	if got := messageIDs(seen); !slices.Equal(got, want) {
		t.Errorf("the other service saw %v, want %v", got, want)
	}
}

// messageIDs returns the sorted ids of messages.
func messageIDs(messages []amqp.Publishing) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	slices.Sort(ids)
	return ids
}

// replay publishes a dead letter to the requeue exchange, as operators do. It has a new id,
// because the consumer knows the old one already, and cannot be read, so it comes back.
func (s *system) replay(d amqp.Delivery) {
	s.Helper()
	m := amqp.Publishing{MessageId: uuid.NewString(), Type: d.Type, DeliveryMode: amqp.Persistent, Body: []byte("no event")}
	s.withChannel(func(c *amqp.Channel) error {
		confirm, err := c.PublishWithDeferredConfirm(requeueExchange, d.RoutingKey, true, false, m)
		if err == nil {
			confirm.Wait()
		}
		return err
	})
}
