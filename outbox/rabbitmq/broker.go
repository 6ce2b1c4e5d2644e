package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

// Broker is where a relay publishes: an exchange. It is a [publish.Destination]. Set its fields
// before the relay runs.
//
// The consumer's [Message] has the event's ID, and its topic as RoutingKey and Type. Timestamp is
// when the event was created, in seconds. Headers has the event's headers and its trace. It has
// neither Aggregate, AggregateID nor Version.
type Broker struct {
	// ConnectionName is what the broker shows for the connection. The default is the exchange and
	// "relay".
	ConnectionName string
	// Topology is declared at the begin of each session, and before each new publisher, because the
	// broker ends a publisher whose exchange was deleted. The default is the exchange, of kind topic.
	// An empty one declares nothing. An event reaches the queues that are bound when it is sent, and no
	// later ones. So add the queues of consumers that you know, and keep the exchange:
	//
	//	queue := rabbitmq.Queue{Name: "notifications", Exchange: "outbox.events", Topics: topics}
	//	broker.Topology.Exchanges = append(broker.Topology.Exchanges, queue.Topology().Exchanges...)
	//	broker.Topology.Queues = append(broker.Topology.Queues, queue.Topology().Queues...)
	Topology Topology
	// FreshURL is asked for the URL at each new connection, if it is set: a password may have changed.
	FreshURL func() (string, error)
	Logger   *slog.Logger // default: slog.Default()

	url, exchange string
	lastError     atomic.Pointer[error]
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
	config := Config{
		URL: b.url, FreshURL: b.FreshURL, Name: b.ConnectionName, Logger: b.Logger,
		failed: func(err error) { b.lastError.Store(&err) },
	}
	return keepDeclaring(ctx, config, func(string) {}, func(ctx context.Context, s *Session) error {
		if err := s.Declare(b.Topology); err != nil {
			return err
		}
		return use(ctx, brokerSession{s, b.exchange, b.Topology})
	})
}

// LastError returns why the last session ended, or did not begin. The relay's Health shows it while
// there is no session.
func (b *Broker) LastError() error {
	if err := b.lastError.Load(); err != nil {
		return *err
	}
	return nil
}

// ForRelay returns the session as a relay uses it. Messages without a destination go to the
// exchange. Its publishers declare nothing.
func (s *Session) ForRelay(exchange string) publish.Session {
	return brokerSession{Session: s, exchange: exchange}
}

// brokerSession is a session as a relay uses it.
type brokerSession struct {
	*Session
	exchange string
	topology Topology
}

// NewPublisher declares the topology, and opens a channel.
func (s brokerSession) NewPublisher(window int) (publish.Publisher, error) {
	if len(s.topology.Exchanges)+len(s.topology.Queues) > 0 {
		if err := s.Declare(s.topology); err != nil {
			return nil, err
		}
	}
	p, err := s.Session.NewPublisher(window)
	return eventPublisher{p, s.exchange}, err
}

// eventPublisher publishes a relay's messages.
type eventPublisher struct {
	*Publisher
	exchange string // of the messages without a destination
}

// Publish is [Publisher.Publish]. RabbitMQ keeps the order of all messages of a channel, so it does
// not need their groups.
func (p eventPublisher) Publish(ctx context.Context, messages []publish.Message, answer func(i int, r publish.Result)) {
	converted := make([]Message, len(messages))
	for i, m := range messages {
		converted[i] = Message{
			ID: m.ID, Type: m.Topic, Exchange: cmp.Or(m.Destination, p.exchange), RoutingKey: m.Topic,
			ContentType: m.ContentType, AppID: m.AppID, Timestamp: m.Timestamp, Headers: m.Headers, Body: m.Body,
		}
	}
	p.Publisher.Publish(ctx, converted, func(i int, r publish.Result) {
		if (r.Outcome == publish.Unknown || r.Outcome == publish.NotSent) && isMissing(r.Err, messages[i].Destination) {
			r = publish.Result{Outcome: publish.Returned, Err: fmt.Errorf("%w: %w", publish.ErrReturned, r.Err)}
		}
		answer(i, r)
	})
}

// isMissing reports whether a channel was closed because an exchange that a message names itself
// does not exist: nothing is bound to it, so the message is returned. AMQP names the exchange in
// the text only. The publisher's own exchange is missing for all messages alike, as if the broker
// were away.
func isMissing(err error, exchange string) bool {
	reason, closed := errors.AsType[*amqp.Error](err)
	return exchange != "" && closed && reason.Code == amqp.NotFound && strings.Contains(reason.Reason, "'"+exchange+"'")
}
