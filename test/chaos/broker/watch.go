package broker

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go" //nolint:depguard // the suite must not use the code that it checks
)

// Watch calls arrived for each message that the exchange gets with this key, until stop is called.
// It has a queue of its own, which disappears with its connection. stop waits until the last call
// has returned.
func (b Broker) Watch(ctx context.Context, key string, arrived func(id string, at time.Time)) (stop func(), err error) {
	conn, _, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	deliveries, err := consume(conn, key)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			arrived(d.MessageId, time.Now())
		}
	}()
	return func() {
		_ = conn.Close()
		<-done
	}, nil
}

func consume(conn *amqp.Connection, key string) (<-chan amqp.Delivery, error) {
	c, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	queue, err := c.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, err
	}
	if err := c.QueueBind(queue.Name, key, Exchange, false, nil); err != nil {
		return nil, err
	}
	return c.Consume(queue.Name, "", true, true, false, false, nil)
}
