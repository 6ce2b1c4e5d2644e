package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// fakeHandler is a handler with a database that the test controls.
type fakeHandler struct {
	calls chan []rabbitmq.Message // what each call has got, before its result

	mu     sync.Mutex
	result func(batch []rabbitmq.Message) error
	away   error     // of the database
	now    time.Time // the database's

	endless bool // a call had no deadline
}

func (h *fakeHandler) Handle(ctx context.Context, batch []rabbitmq.Message) error {
	h.mu.Lock()
	h.noteDeadline(ctx)
	result := h.result
	h.mu.Unlock()
	h.calls <- batch
	if result == nil {
		return nil
	}
	return result(batch)
}

func (h *fakeHandler) noteDeadline(ctx context.Context) {
	_, limited := ctx.Deadline()
	h.endless = h.endless || !limited
}

func (h *fakeHandler) Ready(ctx context.Context) (time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteDeadline(ctx)
	return h.now, h.away
}

// set changes what the handler does from now on.
func (h *fakeHandler) set(change func(*fakeHandler)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// databaseTime is far from the clock of this process.
var databaseTime = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// consumerTest is a consumer with a queue of its own.
type consumerTest struct {
	*testing.T
	queue    rabbitmq.Queue
	handler  *fakeHandler
	consumer *rabbitmq.Consumer
	urls     atomic.Int32 // how often the consumer has asked for the broker's URL
	stop     func() error // ends Run and returns what it returned
}

func newConsumerTest(t *testing.T, change func(*rabbitmq.Queue), result func([]rabbitmq.Message) error) *consumerTest {
	t.Helper()
	c := &consumerTest{T: t, handler: &fakeHandler{calls: make(chan []rabbitmq.Message, 1000), result: result, now: databaseTime}}
	c.queue = rabbitmq.Queue{
		Name: brokertest.Name(), Exchange: brokertest.Exchange(t), Topics: []string{"order.*"}, Retry: []time.Duration{20 * time.Millisecond},
	}
	c.queue.FreshURL = func() (string, error) { c.urls.Add(1); return brokertest.URL(), nil }
	if change != nil {
		change(&c.queue)
	}
	t.Cleanup(func() {
		c.handler.mu.Lock()
		defer c.handler.mu.Unlock()
		if c.handler.endless {
			t.Error("a call of the handler had no deadline")
		}
	})
	deleteDeclared(t, c.queue.Topology())
	s := openSession(t)
	must(t, s.Declare(c.queue.Topology())) // so that messages can come before the start
	return c
}

// newBlockedTest has a handler whose calls say that they have begun, and wait until goOn is closed.
func newBlockedTest(t *testing.T) (c *consumerTest, began <-chan struct{}, goOn chan<- struct{}) {
	t.Helper()
	called, end := make(chan struct{}, 10), make(chan struct{})
	c = newConsumerTest(t, nil, func([]rabbitmq.Message) error {
		called <- struct{}{}
		<-end
		return nil
	})
	return c, called, end
}

func (c *consumerTest) start() {
	c.Helper()
	c.startWith(c.handler)
}

func (c *consumerTest) startWith(h rabbitmq.Handler) {
	c.Helper()
	consumer, err := rabbitmq.NewConsumer("amqp://nobody:old@127.0.0.1:5672", c.queue, h)
	must(c, err)
	c.consumer = consumer
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	c.stop = sync.OnceValue(func() error {
		cancel()
		return receive(c.T, ended, "the end of Run")
	})
	c.Cleanup(func() {
		if err := c.stop(); err != nil {
			c.Errorf("Run returned %v", err)
		}
	})
}

// publish publishes one message for each id.
func (c *consumerTest) publish(ids ...string) {
	c.Helper()
	for _, id := range ids {
		brokertest.Publish(c, c.queue.Exchange, "order.created", amqp.Publishing{
			MessageId: id, Body: []byte("body of " + id), Headers: amqp.Table{"traceparent": parent, "x-tenant": int64(7), "CC": []any{"nobody"}},
		})
	}
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// await waits until the consumer is done with so many deliveries of each outcome. A message that
// goes on failing may have been retried more often.
func (c *consumerTest) await(handled, retried, deadLettered uint64) {
	c.Helper()
	eventually(c.T, fmt.Sprintf("%d handled, %d retried, %d dead letters", handled, retried, deadLettered), func() bool {
		got, _ := c.consumer.Stats()
		return got["handled"] == handled && got["retried"] >= retried && got["dead_lettered"] == deadLettered
	})
}

// awaitTaken waits until the consumer has all messages of its queue.
func (c *consumerTest) awaitTaken() {
	c.Helper()
	eventually(c.T, "all messages at the consumer", func() bool {
		ready, _, err := openSession(c.T).CountReady(c.queue.Name)
		return err == nil && ready == 0
	})
}

// deadLetter removes the only dead letter, and checks that it is the message with this id.
func (c *consumerTest) deadLetter(id string) amqp.Delivery {
	c.Helper()
	var found []amqp.Delivery
	eventually(c.T, "a dead letter", func() bool {
		found = append(found, brokertest.Take(c, c.queue.DeadLetterQueue())...)
		return len(found) > 0
	})
	if len(found) != 1 || found[0].MessageId != id || found[0].RoutingKey != "order.created" {
		c.Fatalf("the dead letters are %v, want %s", found, id)
	}
	return found[0]
}

// wantEmpty ends the consumer and checks that its queue has nothing left.
func (c *consumerTest) wantEmpty() {
	c.Helper()
	must(c, c.stop())
	if left := brokertest.Take(c, c.queue.Name); len(left) > 0 {
		c.Errorf("%d messages are left, the first is %s", len(left), left[0].MessageId)
	}
}

// failing returns a result: an error if the message is in the batch.
func failing(id string, err error) func([]rabbitmq.Message) error {
	return func(batch []rabbitmq.Message) error {
		for _, m := range batch {
			if m.MessageID() == id {
				return err
			}
		}
		return nil
	}
}

var errFake = errors.New("the handler has failed")
