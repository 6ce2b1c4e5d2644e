package rabbitmq_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// nilError is an error that panics when its text is read from a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// TestP9AnErrorThatPanicsStopsNoOther: the common mistake of a nil pointer that is returned as an
// error. It must not end the process.
func TestP9AnErrorThatPanicsStopsNoOther(t *testing.T) {
	t.Parallel()
	var none *nilError
	c := startConsumer(t)
	c.handler.set(func(h *fakeHandler) { h.result = failing("bad", none) })
	c.publish("bad", "good")
	c.await(1, 1, 0)
	c.handler.set(func(h *fakeHandler) { h.result = nil })
	c.await(2, 1, 0)
	c.wantEmpty()
}

// TestP9AMessageThatTakesTheDatabaseDownIsAlone: the broker counts each message that is given back
// because the database is away. So the one that is the cause must be taken alone. Otherwise the
// others become dead letters together with it.
func TestP9AMessageThatTakesTheDatabaseDownIsAlone(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	var c *consumerTest
	c = newConsumerTest(t, func(q *rabbitmq.Queue) { q.DeliveryLimit = 1 }, func(batch []rabbitmq.Message) error {
		if batch[0].ID == "slow" {
			<-arrived
		}
		err := failing("killer", errFake)(batch)
		if err != nil {
			c.handler.set(func(h *fakeHandler) { h.away = errFake })
			time.AfterFunc(100*time.Millisecond, func() { c.handler.set(func(h *fakeHandler) { h.away = nil }) })
		}
		return err
	})
	c.start()
	c.publish("first") // from now on it takes batches
	c.await(1, 0, 0)
	c.publish("slow", "killer", "1", "2", "3", "4")
	eventually(t, "all messages at the consumer", func() (all bool) {
		brokertest.Do(t, func(ch *amqp.Channel) error {
			q, err := ch.QueueDeclarePassive(c.queue.Name, true, false, false, false, nil)
			all = q.Messages == 0
			return err
		})
		return all
	})
	close(arrived)
	c.deadLetter("killer")
	c.await(6, 0, 0)
}
