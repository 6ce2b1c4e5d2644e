package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/notification-service/internal/email"
)

const (
	events      = "outbox.events" // the first part of each subject
	stream      = "OUTBOX_EVENTS" // which the relay creates
	durable     = "notification-service"
	deadLetters = "notification-service.dlq"
	deadStream  = "NOTIFICATION_SERVICE_DLQ"

	prefetch = 64
	// pause is how long it waits before another try, if the server or the relay's stream is missing.
	pause = time.Second
)

// consume takes messages until ctx ends. The client library may reconnect here: an acknowledgement
// contains the number of its message, so a late one does no harm.
func consume(ctx context.Context, c config, h *handler) error {
	options := []nats.Option{nats.Name(service), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(pause)}
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	conn, err := nats.Connect(c.NATSURL.Reveal(), options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	if h.js, err = jetstream.New(conn); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := take(ctx, c, h); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot take messages, trying again", "in", pause.String(), "error", err)
			sleep(ctx, pause)
		}
	}
	// The last acknowledgement may still be in the client library's buffer.
	return conn.FlushTimeout(pause)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// take declares the consumer and handles its messages one after another, until ctx or the consumer
// ends.
func take(ctx context.Context, c config, h *handler) error {
	consumer, err := declare(ctx, c, h.js)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(prefetch))
	if err != nil {
		return err
	}
	defer messages.Stop()
	slog.InfoContext(ctx, "taking messages", "stream", stream, "consumer", durable)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case err == nil:
			h.handle(ctx, m)
		case errors.Is(err, jetstream.ErrNoHeartbeat) && ctx.Err() == nil: // the server is away
		default:
			return err
		}
	}
}

// declare creates the stream for dead letters and the durable consumer. The number of deliveries
// has no limit: a message that fails comes again until it succeeds.
func declare(ctx context.Context, c config, js jetstream.JetStream) (jetstream.Consumer, error) {
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: deadStream, Subjects: []string{deadLetters}, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardNew, Replicas: c.Replicas,
	})
	if err != nil {
		return nil, err
	}
	var filters []string
	for _, key := range email.Topics {
		filters = append(filters, events+"."+key+".*")
	}
	return js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: durable, FilterSubjects: filters, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.AckWait, MaxAckPending: prefetch, DeliverPolicy: jetstream.DeliverAllPolicy, MaxDeliver: -1,
	})
}
