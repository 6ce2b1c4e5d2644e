// Package broker is a client of RabbitMQ for tests. It knows the topology of the services, and shares
// no code with them, because their code is under test.
package broker

import (
	"context"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go" //nolint:depguard // the suite must not use the code that it checks
)

// Names that the services declare.
const (
	Exchange    = "outbox.events"
	Queue       = "notification-service"
	Requeue     = "notification-service.requeue"
	DeadLetters = "notification-service.dlq"
	Tap         = "chaos-tap" // bound to every key, as another service's queue would be
)

// requestTimeout is for one request to a broker that answers.
const requestTimeout = 15 * time.Second

// Broker is a broker with one node or several. Each method opens a connection of its own, to the
// first node that answers.
type Broker struct{ URLs []string }

func (b Broker) withChannel(ctx context.Context, use func(*amqp.Channel) error) error {
	return b.withConnection(ctx, func(conn *amqp.Connection) error {
		channel, err := conn.Channel()
		if err != nil {
			return err
		}
		return use(channel)
	})
}

// withConnection closes the socket when ctx ends: a broker in an alarm does not answer
// connection.close either.
func (b Broker) withConnection(ctx context.Context, use func(*amqp.Connection) error) error {
	ctx, cancel := context.WithTimeout(ctx, 4*requestTimeout)
	defer cancel()
	conn, socket, err := b.connect(ctx)
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

func (b Broker) connect(ctx context.Context) (conn *amqp.Connection, socket net.Conn, err error) {
	for _, url := range b.URLs {
		conn, err = amqp.DialConfig(url, amqp.Config{Heartbeat: requestTimeout, Dial: func(network, address string) (net.Conn, error) {
			var err error
			if socket, err = (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, network, address); err != nil {
				return nil, err
			}
			return socket, socket.SetDeadline(time.Now().Add(requestTimeout)) // until the handshake is done
		}})
		if err == nil {
			return conn, socket, nil
		}
	}
	return nil, nil, err
}

// IsBlocking reports whether the broker blocks publishers, as it does in an alarm.
func (b Broker) IsBlocking(ctx context.Context) (blocked bool, err error) {
	err = b.withConnection(ctx, func(conn *amqp.Connection) error {
		blocking := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
		channel, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := channel.PublishWithContext(ctx, "", "nowhere", false, false, amqp.Publishing{}); err != nil {
			return err
		}
		select {
		case <-blocking:
			blocked = true
		case <-time.After(requestTimeout):
		case <-ctx.Done():
		}
		return nil
	})
	return blocked, err
}
