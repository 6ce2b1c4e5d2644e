// Package broker is the harness's own way to RabbitMQ: it taps, counts, drains, deletes
// and plants. It shares no code with the services, which may be what is broken.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go" //nolint:depguard // a checker must not look through the code that it checks

	"example.com/transactional-outbox/chaos/checker"
)

// Names of the services' contract that the scenarios hurt and the checker reads.
const (
	Exchange         = "outbox.events"
	Queue            = "notification-service"
	Requeue          = "notification-service.requeue"
	DeadLetters      = "notification-service.dlq"
	OrderDeadLetters = "order-service.dlq"
	Tap              = "chaos-tap" // another service's queue, as it were: bound to everything
)

// patience is for one question to a broker that answers.
const patience = 15 * time.Second

// Broker is where to connect to.
type Broker struct{ URL string }

// with lends a channel of a connection of its own.
func (b Broker) with(ctx context.Context, use func(*amqp.Channel) error) error {
	return b.connected(ctx, func(conn *amqp.Connection) error {
		channel, err := conn.Channel()
		if err != nil {
			return err
		}
		return use(channel)
	})
}

// connected lends a connection. Its socket is closed when ctx ends or patience does: a
// broker in an alarm answers no goodbye either.
func (b Broker) connected(ctx context.Context, use func(*amqp.Connection) error) error {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	var socket net.Conn
	conn, err := amqp.DialConfig(b.URL, amqp.Config{Heartbeat: patience, Dial: func(network, address string) (net.Conn, error) {
		var err error
		if socket, err = (&net.Dialer{Timeout: patience}).DialContext(ctx, network, address); err != nil {
			return nil, err
		}
		return socket, socket.SetDeadline(time.Now().Add(patience)) // until the handshake is done
	}})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	defer func() {
		defer time.AfterFunc(time.Second, func() { _ = socket.Close() }).Stop()
		_ = conn.Close()
	}()
	return use(conn)
}

// DeclareExchange makes the exchange as order-service does.
func (b Broker) DeclareExchange(ctx context.Context) error {
	return b.with(ctx, declareExchange)
}

func declareExchange(c *amqp.Channel) error {
	return c.ExchangeDeclare(Exchange, "topic", true, false, false, false, nil)
}

// BindTap makes the tap and binds it to everything, with the exchange if it is missing.
func (b Broker) BindTap(ctx context.Context) error {
	return b.with(ctx, func(c *amqp.Channel) error {
		if err := declareExchange(c); err != nil {
			return err
		}
		arguments := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
		if _, err := c.QueueDeclare(Tap, true, false, false, false, arguments); err != nil {
			return err
		}
		return c.QueueBind(Tap, "#", Exchange, false, nil)
	})
}

// DeleteQueues deletes queues with all that is in them.
func (b Broker) DeleteQueues(ctx context.Context, names ...string) error {
	return b.with(ctx, func(c *amqp.Channel) error {
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
	return b.with(ctx, func(c *amqp.Channel) error {
		for _, name := range names {
			if err := c.ExchangeDelete(name, false, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unbind takes a queue from keys of the exchange. What is in it stays.
func (b Broker) Unbind(ctx context.Context, queue string, keys ...string) error {
	return b.with(ctx, func(c *amqp.Channel) error {
		for _, key := range keys {
			if err := c.QueueUnbind(queue, key, Exchange, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Ready counts the messages of a queue that could be delivered now; there are none in a
// queue that does not exist.
func (b Broker) Ready(ctx context.Context, name string) (n int, err error) {
	err = b.with(ctx, func(c *amqp.Channel) error {
		queue, err := c.QueueDeclarePassive(name, true, false, false, false, nil)
		n = queue.Messages
		return err
	})
	if isMissing(err) {
		return 0, nil
	}
	return n, err
}

func isMissing(err error) bool {
	reason, ok := errors.AsType[*amqp.Error](err)
	return ok && reason.Code == amqp.NotFound
}

// Drain empties a queue, in order, by basic.get: what consumers hold is not there.
func (b Broker) Drain(ctx context.Context, name string) (all []checker.Message, err error) {
	err = b.with(ctx, func(c *amqp.Channel) error {
		for {
			d, got, err := c.Get(name, true)
			if err != nil || !got {
				return err
			}
			all = append(all, checker.Message{ID: d.MessageId, Key: d.RoutingKey, Body: d.Body, Headers: d.Headers, At: d.Timestamp, Queue: name})
		}
	})
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("draining %s: %w", name, err)
	}
	return all, nil
}

// GiveBack sends messages to the service's queue by the way that its retries come back,
// as if the broker delivered them again. It returns when all are confirmed.
func (b Broker) GiveBack(ctx context.Context, messages ...checker.Message) error {
	again := slices.Clone(messages)
	for i := range again {
		again[i].Headers = nil
	}
	return b.publish(ctx, Requeue, again)
}

// Plant sends a message to the service's queue alone, with its headers.
func (b Broker) Plant(ctx context.Context, m checker.Message) error {
	return b.publish(ctx, Requeue, []checker.Message{m})
}

// Emit publishes messages to the exchange, as another program might.
func (b Broker) Emit(ctx context.Context, messages ...checker.Message) error {
	return b.publish(ctx, Exchange, messages)
}

func (b Broker) publish(ctx context.Context, exchange string, messages []checker.Message) error {
	return b.with(ctx, func(c *amqp.Channel) error {
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
				return fmt.Errorf("planting a message: not confirmed: %w", err)
			}
		}
		return nil
	})
}

// table is for the client library, which wants its own type at each level.
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

// Purge empties a queue without reading what is in it.
func (b Broker) Purge(ctx context.Context, name string) error {
	return b.with(ctx, func(c *amqp.Channel) error {
		_, err := c.QueuePurge(name, false)
		return err
	})
}

// Blocks reports whether the broker tells a publisher to stop, as it does in an alarm.
func (b Broker) Blocks(ctx context.Context) (blocked bool, err error) {
	err = b.connected(ctx, func(conn *amqp.Connection) error {
		told := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
		channel, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := channel.PublishWithContext(ctx, "", "nowhere", false, false, amqp.Publishing{}); err != nil {
			return err
		}
		select {
		case <-told:
			blocked = true
		case <-time.After(patience):
		case <-ctx.Done():
		}
		return nil
	})
	return blocked, err
}
