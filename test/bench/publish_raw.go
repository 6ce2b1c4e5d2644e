package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// publishing is a way to publish many messages: over channels, each with a window of messages.
type publishing struct{ channels, window int }

var publishings = []publishing{
	{1, 100},
	{1, 500},
	{1, 1000},
	{2, 100},
	{2, 500},
	{2, 1000},
	{4, 100},
	{4, 500},
	{4, 1000},
}

func (p publishing) name() string { return fmt.Sprintf("raw_publish_%dx%d", p.channels, p.window) }

func (p publishing) key() string { return p.name() + "_per_s" }

// confirmTimeout is much longer than a broker needs.
const confirmTimeout = time.Minute

// publishRaw measures each way with all events of d. Each way has a virtual host of its own, which
// is deleted afterwards: the broker still works on the messages that its queues hold, and that
// would slow down what is measured next.
func (b *bench) publishRaw(ctx context.Context, d database) error {
	for _, way := range publishings {
		perSecond, err := b.publishOneWay(ctx, d, way)
		if err != nil {
			return err
		}
		b.samples.add(way.key(), perSecond)
	}
	return nil
}

func (b *bench) publishOneWay(ctx context.Context, d database, way publishing) (perSecond float64, err error) {
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return 0, err
	}
	defer drop()
	messages, err := d.messages(ctx, exchange)
	if err != nil {
		return 0, err
	}
	err = inSession(ctx, url, func(s *rabbitmq.Session) error {
		if err := s.Declare(boundQueue()); err != nil {
			return err
		}
		before := usedCPU()
		perSecond, err = way.publish(s, messages)
		b.addCPU(way.name()+"_cpu_us", before, len(messages))
		return err
	})
	return perSecond, err
}

// exchange is the relay's exchange.
const exchange = "outbox.events"

// messages returns the events of d, each with what the relay gives its message.
func (d database) messages(ctx context.Context, exchange string) ([]publish.Message, error) {
	rows, _ := d.pool.Query(ctx, `SELECT id, aggregate_id, topic, content_type, payload, traceparent, created_at
		FROM outbox_events ORDER BY seq`) // CollectRows returns the error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (publish.Message, error) {
		m, id, trace := publish.Message{Destination: exchange, AppID: "order-service"}, uuid.Nil, ""
		err := row.Scan(&id, &m.Group, &m.Topic, &m.ContentType, &m.Body, &trace, &m.Timestamp)
		m.ID, m.Headers = id.String(), map[string]any{"traceparent": trace}
		return m, err
	})
}

// publish returns the confirmed messages per second. Each channel takes the next window when its
// last one is confirmed.
func (p publishing) publish(s *rabbitmq.Session, messages []publish.Message) (float64, error) {
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
