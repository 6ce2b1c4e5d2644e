package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// measureDrain publishes a backlog without a relay, and then with a relay.
func (b *bench) measureDrain(ctx context.Context) error {
	for run := range b.Runs {
		suite.Progress("drain, run %d of %d: %d events", run+1, b.Runs, b.Events)
		events := orderEvents(b.Events)
		for _, way := range publishings {
			if err := b.publishBare(ctx, messagesOf(events), way); err != nil {
				return err
			}
		}
		if err := b.drainRun(ctx, events); err != nil {
			return err
		}
	}
	best := 0.0
	for _, way := range publishings {
		best = max(best, b.samples.median(way.name()+"_per_s"))
	}
	b.samples.add("raw_publish_per_s", best)
	b.addRatio("relay_drain_ratio", "relay_drain_per_s", "raw_publish_per_s")
	return nil
}

// drainRun measures from the relay's connection to the broker on, without the start of the process.
func (b *bench) drainRun(ctx context.Context, events []outbox.Event) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		if err := errors.Join(d.fill(ctx, events), declareQueue(ctx, d.broker)); err != nil {
			return err
		}
		relay, err := b.serve(ctx, services.Orders, "relay", d)
		if err != nil {
			return err
		}
		defer end(relay) //nolint:contextcheck // cleanup must also run after ctx has ended
		if err := d.awaitPublished(ctx); err != nil {
			return err
		}
		return b.addRun(ctx, relay, services.ConnectedToBroker, b.Events, "relay_drain_per_s", "relay_rss_mib")
	})
}

// addRun adds the rate of a service since a line in its log, and its resident memory.
func (b *bench) addRun(ctx context.Context, s *services.Process, since string, done int, rate, rss string) error {
	ended := time.Now()
	began, err := s.Await(ctx, since)
	if err != nil {
		return err
	}
	resident, err := residentMiB(s)
	if err != nil {
		return err
	}
	b.samples.add(rate, float64(done)/ended.Sub(began.Time()).Seconds())
	b.samples.add(rss, resident)
	return nil
}

// publishing is a way to publish many messages: over channels, each with a window of messages.
type publishing struct{ channels, window int }

var publishings = []publishing{{1, 100}, {1, 500}, {1, 1000}, {2, 100}, {2, 500}, {2, 1000}, {4, 100}, {4, 500}, {4, 1000}}

func (p publishing) name() string { return fmt.Sprintf("raw_publish_%dx%d", p.channels, p.window) }

// publishBare measures a way with all messages. Each way has a virtual host of its own, which is
// deleted afterwards: the broker still works on the messages that its queues hold, and that would
// slow down what is measured next.
func (b *bench) publishBare(ctx context.Context, messages []publish.Message, way publishing) error {
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	if err := declareQueue(ctx, url); err != nil {
		return err
	}
	return inSession(ctx, url, func(s *rabbitmq.Session) error {
		perSecond, err := way.publish(s, messages)
		b.samples.add(way.name()+"_per_s", perSecond)
		return err
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

// publish returns the confirmed messages per second. Each channel takes the next window when its
// last one is confirmed.
func (p publishing) publish(s *rabbitmq.Session, messages []publish.Message) (float64, error) {
	const confirmTimeout = time.Minute // much longer than a broker needs
	windows := make(chan []publish.Message, len(messages)/p.window+1)
	for window := range slices.Chunk(messages, p.window) {
		windows <- window
	}
	close(windows)
	publishers := make([]publish.Publisher, 0, p.channels)
	for range p.channels {
		publisher, err := s.ForRelay("").NewPublisher(p.window)
		if err != nil {
			return 0, err
		}
		defer publisher.Close()
		publishers = append(publishers, publisher)
	}
	var channels errgroup.Group
	began := time.Now()
	for _, publisher := range publishers {
		channels.Go(func() error {
			var errs []error
			for window := range windows {
				for _, result := range publish.All(publisher, window, confirmTimeout) {
					errs = append(errs, result.Err)
				}
			}
			return errors.Join(errs...)
		})
	}
	err := channels.Wait()
	return float64(len(messages)) / time.Since(began).Seconds(), err
}
