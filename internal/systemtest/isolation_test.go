package systemtest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP8AnotherServiceSeesEachEventOnce has a second service that listens to the same
// events, while everything goes wrong here that can.
func TestP8AnotherServiceSeesEachEventOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, key := range []string{"order.created", "order.confirmed", "order.cancelled"} {
		s.bind("other-service", key, nil)
	}
	wayBack := s.witness(requeueX)
	never, later, bad := orderOf("never@example.com"), orderOf("later@example.com"), orderOf("bad@example.com")
	s.mail.refuse("never@example.com", refused(451, always))
	s.mail.refuse("later@example.com", refused(451, 2))
	s.mail.refuse("bad@example.com", refused(550, always))
	unreadable, tooLarge := orderOf("x@example.com"), orderOf("y@example.com")
	unreadable.Body = []byte("{\"order_id\": \xff")
	tooLarge.Body = bytes.Repeat([]byte("x"), 2<<20) // the broker itself moves it
	failing := []amqp.Publishing{never, later, bad, unreadable, tooLarge}

	first := s.consuming(quick)
	good := ordersOf(30)
	s.emit(slices.Concat(good[:10], failing, good[10:20])...)
	s.awaitCount(s.notifications, 20+1, sent) // one of them is later's
	dead := s.take(deadLetters, 4)
	s.emit(good[20:]...)
	first.kill() // with what it has in hand
	s.consuming(quick)
	s.endLeases()
	s.awaitCount(s.notifications, 30+1, sent)
	s.wantDead([]amqp.Publishing{s.replay(dead[0])})

	all := slices.Concat(good, failing)
	var want []string
	for _, m := range all {
		want = append(want, m.MessageId)
	}
	slices.Sort(want)
	seen := s.take("other-service", len(all))
	if got := ids(seen); !slices.Equal(got, want) {
		t.Errorf("the other service saw %v, want %v", got, want)
	}
	for _, d := range seen {
		if d.Exchange != exchange || d.Headers["retry-count"] != nil {
			t.Errorf("the other service saw a retry: %s %v", d.Exchange, d.Headers)
		}
	}
	// It could have seen something: 3 of never came back here, 2 of later, and the replay.
	wayBack.await(3 + 2 + 1)
}

// replay sends a dead letter back as operators do, under a new id: of the old one all
// is known.
func (s *system) replay(d amqp.Delivery) amqp.Publishing {
	s.Helper()
	m := amqp.Publishing{
		MessageId: uuid.NewString(), Type: d.Type, Timestamp: d.Timestamp, DeliveryMode: amqp.Persistent, Body: []byte("no event"),
	}
	s.at(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		confirm, err := c.PublishWithDeferredConfirm(requeueX, d.RoutingKey, true, false, m)
		if err == nil {
			confirm.Wait()
		}
		return err
	})
	return m
}
