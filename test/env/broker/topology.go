package broker

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go" //nolint:depguard // the suite must not use the code that it checks
)

// declareExchange declares the exchange as order-service does.
func declareExchange(c *amqp.Channel) error {
	return c.ExchangeDeclare(Exchange, "topic", true, false, false, false, nil)
}

// BindTap declares the tap and its exchange, and binds the tap to every key.
func (b Broker) BindTap(ctx context.Context) error {
	return b.BindQueue(ctx, Tap, "#")
}

// BindQueue declares a quorum queue and its exchange, and binds the queue to a key. When an
// operator limits the queue's length, it refuses messages.
func (b Broker) BindQueue(ctx context.Context, name, key string) error {
	return b.withChannel(ctx, func(c *amqp.Channel) error {
		if err := declareExchange(c); err != nil {
			return err
		}
		arguments := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, amqp.QueueOverflowArg: amqp.QueueOverflowRejectPublish}
		if _, err := c.QueueDeclare(name, true, false, false, false, arguments); err != nil {
			return err
		}
		return c.QueueBind(name, key, Exchange, false, nil)
	})
}

// DeleteQueues deletes queues and their messages.
func (b Broker) DeleteQueues(ctx context.Context, names ...string) error {
	return b.withChannel(ctx, func(c *amqp.Channel) error {
		for _, name := range names {
			if _, err := c.QueueDelete(name, false, false, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteExchanges deletes exchanges with their bindings.
func (b Broker) DeleteExchanges(ctx context.Context, names ...string) error {
	return b.withChannel(ctx, func(c *amqp.Channel) error {
		for _, name := range names {
			if err := c.ExchangeDelete(name, false, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unbind removes bindings of a queue to the exchange. The queue keeps its messages.
func (b Broker) Unbind(ctx context.Context, queue string, keys ...string) error {
	return b.withChannel(ctx, func(c *amqp.Channel) error {
		for _, key := range keys {
			if err := c.QueueUnbind(queue, key, Exchange, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
