package rabbitmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// cleanUp deletes what an example has declared.
func cleanUp(declared rabbitmq.Topology) {
	conn, err := amqp.Dial(brokertest.URL())
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err != nil {
		return
	}
	for _, q := range declared.Queues {
		_, _ = channel.QueueDelete(q.Name, false, false, false)
	}
	for _, e := range declared.Exchanges {
		_ = channel.ExchangeDelete(e.Name, false, false)
	}
}

// The handler gets what has arrived, and all of it is acknowledged when it returns nil. As a rule
// the handler is an inbox.Once, so that a message has its effect once.
func ExampleNewConsumer() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	exchange := brokertest.Name()
	broker := rabbitmq.NewBroker(brokertest.URL(), exchange)
	defer cleanUp(broker.Topology)

	queue := rabbitmq.Queue{
		Name: brokertest.Name(), Exchange: exchange, Topics: []string{"order.created"},
		Check: func(m rabbitmq.Message) error { // otherwise it is a dead letter at once
			if !json.Valid(m.Body) {
				return fmt.Errorf("no JSON: %q", m.Body)
			}
			return nil
		},
	}
	defer cleanUp(queue.Topology())
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
	go publishAnOrder(ctx, broker)
	fmt.Println("error:", consumer.Run(ctx))
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
