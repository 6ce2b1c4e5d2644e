package rabbitmq_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

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
	c.awaitTaken()
	close(arrived)
	c.deadLetter("killer")
	c.await(6, 0, 0)
}

// TestP5AcknowledgingTogetherSettlesOnlyWhatIsDone: a message waits for its copy, which is refused.
// A batch behind it is acknowledged together, before the end of the consumer and after it. The
// message stays in the queue.
func TestP5AcknowledgingTogetherSettlesOnlyWhatIsDone(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	c := newConsumerTest(t, func(q *rabbitmq.Queue) { q.Retry = []time.Duration{time.Hour} }, func(batch []rabbitmq.Message) error {
		if batch[0].ID == "last" {
			close(began)
			<-goOn
		}
		return failing("bad", errFake)(batch)
	})
	full := brokertest.Name()
	brokertest.DeleteQueues(t, full)
	brokertest.Do(t, func(ch *amqp.Channel) error {
		arguments := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-max-length": 1, "x-overflow": "reject-publish"}
		if _, err := ch.QueueDeclare(full, true, false, false, false, arguments); err != nil {
			return err
		}
		return ch.QueueBind(full, "", c.queue.Name+".retry.1h", false, nil)
	})
	brokertest.Publish(t, "", full, amqp.Publishing{}, amqp.Publishing{}) // the limit is soft
	c.start()
	c.publish("first") // from now on it takes batches
	c.await(1, 0, 0)
	c.publish("bad")
	eventually(t, "its copy is refused", func() bool { return c.consumer.CopyFailures() > 0 })
	c.publish("1", "2", "3")
	c.await(4, 0, 0)
	c.publish("last")
	receive(t, began, "call")
	ended := make(chan error, 1)
	go func() { ended <- c.stop() }()
	time.Sleep(500 * time.Millisecond) // nothing shows that the copy is not tried any more
	close(goOn)
	must(t, receive(t, ended, "end"))
	c.await(5, 0, 0)
	if left := brokertest.Take(t, c.queue.Name); len(left) != 1 || left[0].MessageId != "bad" {
		t.Errorf("%d messages are left, want the bad one", len(left))
	}
}
