// Package brokertest gives tests what they need of the RabbitMQ at TEST_AMQP_URL. It uses a
// connection of its own, and none of package rabbitmq.
package brokertest

import (
	"cmp"
	"crypto/rand"
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

const defaultURL = "amqp://guest:guest@127.0.0.1:5672/" //nolint:gosec // everybody knows this password

// URL is the broker's.
func URL() string { return cmp.Or(os.Getenv("TEST_AMQP_URL"), defaultURL) }

// Name is one that nobody has used.
func Name() string { return "test." + rand.Text() }

// Do calls do with a channel. So an error that closes the channel affects nothing else.
func Do(tb testing.TB, do func(*amqp.Channel) error) {
	tb.Helper()
	conn, err := amqp.Dial(URL())
	if err != nil {
		tb.Fatalf("RabbitMQ: %v", err)
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err != nil {
		tb.Fatal(err)
	}
	if err := do(channel); err != nil {
		tb.Fatal(err)
	}
}

// Exchange declares a topic exchange. It is deleted when the test ends.
func Exchange(tb testing.TB) string {
	tb.Helper()
	name := Name()
	Do(tb, func(c *amqp.Channel) error { return c.ExchangeDeclare(name, "topic", true, false, false, false, nil) })
	DeleteExchanges(tb, name)
	return name
}

// DeleteExchanges deletes these exchanges when the test ends.
func DeleteExchanges(tb testing.TB, names ...string) {
	tb.Cleanup(func() {
		Do(tb, func(c *amqp.Channel) error {
			for _, name := range names {
				if err := c.ExchangeDelete(name, false, false); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// DeleteQueues deletes these queues when the test ends.
func DeleteQueues(tb testing.TB, names ...string) {
	tb.Cleanup(func() {
		Do(tb, func(c *amqp.Channel) error {
			for _, name := range names {
				if _, err := c.QueueDelete(name, false, false, false); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Queue declares a quorum queue that is bound to the exchange by these keys. It is deleted when the
// test ends.
func Queue(tb testing.TB, exchange string, keys ...string) string {
	tb.Helper()
	name := Name()
	Do(tb, func(c *amqp.Channel) error {
		_, err := c.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
		for _, key := range keys {
			if err == nil {
				err = c.QueueBind(name, key, exchange, false, nil)
			}
		}
		return err
	})
	DeleteQueues(tb, name)
	return name
}

// Publish publishes messages, and returns when the broker has confirmed them.
func Publish(tb testing.TB, exchange, key string, messages ...amqp.Publishing) {
	tb.Helper()
	Do(tb, func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		for _, m := range messages {
			confirmation, err := c.PublishWithDeferredConfirm(exchange, key, true, false, m)
			if err != nil {
				return err
			}
			if !confirmation.Wait() {
				tb.Error("the broker has not taken the message")
			}
		}
		return nil
	})
}

// Take removes the messages that are ready in a queue now, and returns them.
func Take(tb testing.TB, queue string) (messages []amqp.Delivery) {
	tb.Helper()
	Do(tb, func(c *amqp.Channel) error {
		for {
			d, ok, err := c.Get(queue, true)
			if err != nil || !ok {
				return err
			}
			messages = append(messages, d)
		}
	})
	return messages
}
