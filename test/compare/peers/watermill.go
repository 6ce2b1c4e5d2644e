package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	watermillmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// watermillOutbox publishes each event to a topic in the database, in the order's transaction. The
// forwarder reads this topic, and publishes the messages to the broker.
//
// Source: Watermill's documentation, "Forwarder (the outbox pattern)", "SQL" and "RabbitMQ (AMQP)".
// The schema and the offsets are the documented defaults for PostgreSQL. Both replicas are in one
// consumer group.
//
// Settings: the exchange is a durable topic exchange, and ConfirmDelivery is on. It is off by
// default; its comment says that it is slower and more reliable. Mandatory would change nothing:
// the publisher does not read what comes back. These times are shorter, so that a row is short:
// each is a tenth of its default.
//
//   - AckDeadline is 3 s instead of 30 s.
//   - PollInterval, ResendInterval and RetryInterval are 0.1 s instead of 1 s.
//   - The pause before a new connection to the broker is 50 ms to 6 s instead of 0.5 s to 60 s.
//
// Right: message and order are committed together, a crash loses nothing, and the messages keep
// their order: by transaction, one after the other, also with several replicas. But the group has
// one reader at a time: the one that holds a row lock in an open transaction. And a message that
// reaches no queue is confirmed as well.
type watermillOutbox struct {
	logger    watermill.LoggerAdapter
	forwarder *forwarder.Forwarder
}

// forwarderTopic is the topic in the database.
const forwarderTopic = "events_to_forward"

func newWatermill(_ context.Context, s *shop.Shop) (outbox, error) {
	o := watermillOutbox{logger: watermill.NewSlogLogger(slog.Default())}
	deadline := 3 * time.Second
	subscriber, err := sql.NewSubscriber(sql.BeginnerFromPgx(s.DB), sql.SubscriberConfig{
		ConsumerGroup:    "forwarder",
		AckDeadline:      &deadline,
		PollInterval:     time.Second / 10,
		ResendInterval:   time.Second / 10,
		RetryInterval:    time.Second / 10,
		SchemaAdapter:    sql.DefaultPostgreSQLSchema{},
		OffsetsAdapter:   sql.DefaultPostgreSQLOffsetsAdapter{},
		InitializeSchema: true,
	}, o.logger)
	if err != nil {
		return nil, err
	}
	if err := subscriber.SubscribeInitialize(forwarderTopic); err != nil {
		return nil, err
	}
	publisher, err := amqp.NewPublisher(amqpConfig(s.AMQPURL), o.logger)
	if err != nil {
		return nil, err
	}
	o.forwarder, err = forwarder.NewForwarder(subscriber, publisher, o.logger, forwarder.Config{ForwarderTopic: forwarderTopic})
	return o, err
}

// eventKey is the metadata from which the type of the AMQP message is made.
const eventKey = "event_key"

func amqpConfig(url string) amqp.Config {
	config := amqp.NewDurableTopicConfig(url, shop.Exchange, "")
	config.Exchange.Durable = true // the name of this config is about its queue
	config.Publish.ConfirmDelivery = true
	config.Connection.Reconnect = amqp.DefaultReconnectConfig()
	config.Connection.Reconnect.BackoffInitialInterval /= 10
	config.Connection.Reconnect.BackoffMaxInterval /= 10
	config.Marshaler = amqp.DefaultMarshaler{PostprocessPublishing: func(p amqp091.Publishing) amqp091.Publishing {
		p.MessageId, _ = p.Headers[amqp.DefaultMessageUUIDHeaderKey].(string)
		p.Type, _ = p.Headers[eventKey].(string)
		p.ContentType, p.Timestamp = "application/json", time.Now()
		return p
	}}
	return config
}

// append makes a publisher for the transaction, as the documentation says.
func (o watermillOutbox) append(ctx context.Context, tx pgx.Tx, m message) error {
	inTx, err := sql.NewPublisher(sql.TxFromPgx(tx), sql.PublisherConfig{SchemaAdapter: sql.DefaultPostgreSQLSchema{}}, o.logger)
	if err != nil {
		return err
	}
	event := watermillmessage.NewMessageWithContext(ctx, m.ID, watermillmessage.Payload(m.Body))
	event.Metadata.Set(eventKey, m.Key)
	publisher := forwarder.NewPublisher(inTx, forwarder.PublisherConfig{ForwarderTopic: forwarderTopic})
	return publisher.Publish(m.Key, event)
}

func (o watermillOutbox) start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- o.forwarder.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-o.forwarder.Running():
		return nil
	}
}

func (o watermillOutbox) stop() { _ = o.forwarder.Close() }
