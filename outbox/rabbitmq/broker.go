package rabbitmq

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

// Broker is where a relay publishes: an exchange. It is a [publish.Destination]. Set its fields
// before the relay runs.
type Broker struct {
	// ConnectionName is what the broker shows for the connection. The default is the exchange and
	// "relay".
	ConnectionName string
	// Topology is declared at the begin of each session. The default is the exchange, of kind topic.
	// An empty one declares nothing.
	Topology Topology
	// Waits is told what the relay waits for, and "" when it waits for nothing. It may be nil.
	Waits  func(what string)
	Logger *slog.Logger // default: slog.Default()

	url, exchange string
}

// NewBroker returns the broker at a URL. The URL may name several nodes of one cluster:
// amqp://user:password@a:5672,b:5672/vhost. Messages without a destination go to the exchange.
func NewBroker(url, exchange string) *Broker {
	b := &Broker{ConnectionName: exchange + " relay", url: url, exchange: exchange}
	if exchange != "" { // the default exchange has no name, and cannot be declared
		b.Topology.Exchanges = []Exchange{{Name: exchange, Kind: "topic"}}
	}
	return b
}

// System is OpenTelemetry's name for RabbitMQ.
func (b *Broker) System() string { return "rabbitmq" }

// Name is the exchange.
func (b *Broker) Name() string { return cmp.Or(b.exchange, "default") }

// KeepConnected declares the topology at the begin of each session, and then calls use. While the
// broker has an object of the same name with other properties, it logs that and tries again.
func (b *Broker) KeepConnected(ctx context.Context, use func(context.Context, publish.Session) error) error {
	if _, err := amqpurl.Split(b.url); err != nil {
		return fmt.Errorf("the broker's URL %w", err)
	}
	b.waits("a session with the broker")
	config := Config{URL: b.url, Name: b.ConnectionName, Logger: b.Logger}
	return keepDeclaring(ctx, config, b.waits, func(ctx context.Context, s *Session) error {
		defer b.waits("a session with the broker")
		if err := s.Declare(b.Topology); err != nil {
			return err
		}
		b.waits("")
		return use(ctx, brokerSession{s, b})
	})
}

func (b *Broker) waits(what string) {
	if b.Waits != nil {
		b.Waits(what)
	}
}

// brokerSession is a session as a relay uses it.
type brokerSession struct {
	*Session
	broker *Broker
}

// NewPublisher opens a channel.
func (s brokerSession) NewPublisher(window int) (publish.Publisher, error) {
	p, err := s.Session.NewPublisher(window)
	return EventPublisher{p, s.broker.exchange}, err
}

// Unblocked waits until the broker takes messages.
func (s brokerSession) Unblocked(ctx context.Context) error {
	if s.Blocked() {
		s.broker.waits("the broker to take messages: it has a memory or disk alarm")
		defer s.broker.waits("")
	}
	return s.Session.Unblocked(ctx)
}
