package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/services"
)

// measureDrain publishes a backlog without a relay, and then with a relay.
func (b *bench) measureDrain(ctx context.Context) error {
	events := orderEvents(b.Events)
	if b.Bare {
		if err := b.publishBare(ctx, messagesOf(events)); err != nil {
			return err
		}
	}
	return b.drainRun(ctx, events)
}

// drainRun measures from the relay's connection to the broker on, without the start of the process.
func (b *bench) drainRun(ctx context.Context, events []outbox.Event) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		if err := errors.Join(d.fill(ctx, events), declareQueue(ctx, d.broker)); err != nil {
			return err
		}
		relay, err := b.serve(ctx, services.Orders, "relay", services.ConnectedToBroker, d)
		if err != nil {
			return err
		}
		defer end(relay) //nolint:contextcheck // cleanup must also run after ctx has ended
		done := b.measure("drain", relay)
		if err := d.awaitPublished(ctx); err != nil {
			return err
		}
		return done(b.Events)
	})
}

// publishBare publishes without a relay, over a virtual host of its own: the broker still works on
// the messages that a queue holds, and that would slow down what is measured next.
func (b *bench) publishBare(ctx context.Context, messages []publish.Message) error {
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	if err := declareQueue(ctx, url); err != nil {
		return err
	}
	return inSession(ctx, url, func(s *rabbitmq.Session) error {
		done := b.measure("bare_publish")
		return errors.Join(publishAll(s, messages), done(len(messages)))
	})
}

// messagesOf returns the messages that a relay makes of the events.
func messagesOf(events []outbox.Event) []publish.Message {
	messages := make([]publish.Message, len(events))
	for i, e := range events {
		messages[i] = publish.Message{
			Destination: exchange, AppID: services.Orders, ID: e.ID.String(), Group: e.AggregateID, Topic: e.Topic,
			ContentType: "application/json", Body: e.Payload, Timestamp: time.Now(), Headers: map[string]any{"traceparent": e.Traceparent},
		}
	}
	return messages
}

// Tried: 1, 2 and 4 channels, with windows of 100, 500 and 1000 messages. None was faster by more than
// 5 %.
const (
	publishChannels = 2
	publishWindow   = 1000
)

// publishAll returns when all messages are confirmed. Each channel takes the next window when its
// last one is confirmed.
func publishAll(s *rabbitmq.Session, messages []publish.Message) error {
	const confirmTimeout = time.Minute // much longer than a broker needs
	windows := make(chan []publish.Message, len(messages)/publishWindow+1)
	for window := range slices.Chunk(messages, publishWindow) {
		windows <- window
	}
	close(windows)
	var channels errgroup.Group
	for range publishChannels {
		channels.Go(func() error {
			publisher, err := s.ForRelay("").NewPublisher(publishWindow)
			if err != nil {
				return err
			}
			defer publisher.Close()
			var errs []error
			for window := range windows {
				for _, result := range publish.All(publisher, window, confirmTimeout) {
					errs = append(errs, result.Err)
				}
			}
			return errors.Join(errs...)
		})
	}
	return channels.Wait()
}
