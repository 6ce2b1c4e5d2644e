package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go" //nolint:depguard // the suite must not use the code that it checks
)

// Ready returns the number of ready messages in queues. A queue that does not exist has none.
func (b Broker) Ready(ctx context.Context, names ...string) (n int, err error) {
	err = b.withConnection(ctx, func(conn *amqp.Connection) error {
		for _, name := range names {
			channel, err := conn.Channel() // the answer that a queue is missing closes the channel
			if err != nil {
				return err
			}
			queue, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil && !isMissing(err) {
				return err
			}
			n += queue.Messages
		}
		return nil
	})
	return n, err
}

func isMissing(err error) bool {
	reason, ok := errors.AsType[*amqp.Error](err)
	return ok && reason.Code == amqp.NotFound
}

// Message is a message from a queue.
type Message struct {
	ID, Key string
	Body    []byte
	Headers map[string]any
	At      time.Time // the timestamp property
	Queue   string    // the queue that it was read from
}

// Drain empties a queue in order, with basic.get. It does not see unacknowledged messages.
func (b Broker) Drain(ctx context.Context, name string) (all []Message, err error) {
	for {
		part, err := b.drainPart(ctx, name)
		if all = append(all, part...); err != nil || len(part) < drainPart {
			return all, err
		}
	}
}

// drainPart is how many messages Drain reads on one connection, which has a limited time. On a busy
// machine, each message of a cluster has taken 20 ms.
const drainPart = 1000

func (b Broker) drainPart(ctx context.Context, name string) (all []Message, err error) {
	err = b.withChannel(ctx, func(c *amqp.Channel) error {
		for len(all) < drainPart {
			d, got, err := c.Get(name, true)
			if err != nil || !got {
				return err
			}
			all = append(all, Message{ID: d.MessageId, Key: d.RoutingKey, Body: d.Body, Headers: d.Headers, At: d.Timestamp, Queue: name})
		}
		return nil
	})
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("draining %s: %w", name, err)
	}
	return all, nil
}

// Redeliver sends messages to the service's queue through the requeue exchange, without headers, as
// if the broker delivered them again. It returns when all are confirmed.
func (b Broker) Redeliver(ctx context.Context, messages ...Message) error {
	again := slices.Clone(messages)
	for i := range again {
		again[i].Headers = nil
	}
	return b.publish(ctx, Requeue, again)
}

// Publish publishes messages to the exchange, as another program could.
func (b Broker) Publish(ctx context.Context, messages ...Message) error {
	return b.publish(ctx, Exchange, messages)
}

func (b Broker) publish(ctx context.Context, exchange string, messages []Message) error {
	return b.withChannel(ctx, func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		for _, m := range messages {
			confirm, err := c.PublishWithDeferredConfirm(exchange, m.Key, true, false, amqp.Publishing{
				Headers: table(m.Headers), MessageId: m.ID, Type: m.Key, Timestamp: time.Now(), Body: m.Body,
				ContentType: "application/json", DeliveryMode: amqp.Persistent,
			})
			if err != nil {
				return err
			}
			if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
				return fmt.Errorf("publishing a message: not confirmed: %w", err)
			}
		}
		return nil
	})
}

// table converts nested maps to the client library's own type.
func table(headers map[string]any) amqp.Table {
	t := amqp.Table{}
	for name, value := range headers {
		if nested, ok := value.(map[string]any); ok {
			value = table(nested)
		}
		t[name] = value
	}
	return t
}
