package rabbitmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// The handler gets what has arrived, and all of it is acknowledged when it returns nil. As a rule
// the handler is an inbox.Once, so that a message has its effect once.
func ExampleNewConsumer() {
	dbtest.Example(func(tb testing.TB) {
		ctx, stop := context.WithTimeout(tb.Context(), time.Minute)
		defer stop()
		exchange := brokertest.Exchange(tb)
		queue := rabbitmq.Queue{
			Name: brokertest.Name(), Exchange: exchange, Topics: []string{"order.created"},
			Check: func(m rabbitmq.Message) error { // otherwise it is a dead letter at once
				if !json.Valid(m.Body) {
					return fmt.Errorf("no JSON: %q", m.Body)
				}
				return nil
			},
		}
		deleteDeclared(tb, queue.Topology())
		consumer, err := rabbitmq.NewConsumer(brokertest.URL(), queue, rabbitmq.HandlerFunc(
			func(_ context.Context, batch []rabbitmq.Message) error {
				for _, m := range batch {
					fmt.Println(m.RoutingKey, string(m.Body))
				}
				stop()
				return nil
			}))
		if err != nil {
			fmt.Println(err)
			return
		}
		go publishAnOrder(ctx, rabbitmq.NewBroker(brokertest.URL(), exchange))
		fmt.Println("error:", consumer.Run(ctx))
	})
	// Output:
	// order.created {"id": 1}
	// error: <nil>
}

// publishAnOrder publishes until a queue is bound.
func publishAnOrder(ctx context.Context, broker *rabbitmq.Broker) {
	_ = broker.KeepConnected(ctx, func(ctx context.Context, s publish.Session) error {
		publisher, err := s.NewPublisher(1)
		if err != nil {
			return err
		}
		m := publish.Message{ID: "1", Topic: "order.created", Body: []byte(`{"id": 1}`)}
		for publish.All(publisher, []publish.Message{m}, 10*time.Second)[0].Outcome != publish.Confirmed {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(100 * time.Millisecond):
			}
		}
		<-ctx.Done()
		return nil
	})
}
