package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/stage"
	"example.com/transactional-outbox/order-service/internal/relay"
)

// mismatchPause is how long the relay waits before it declares a topology again that the
// broker has refused.
const mismatchPause = 10 * time.Second

// publishEvents runs the relay on one session after the other. While the broker has a queue
// or an exchange of the same name with other properties, it logs that and tries again. The
// API takes orders meanwhile, and nobody has to restart the service afterwards.
func publishEvents(ctx context.Context, c config, r *relay.Relay, waits *stage.Stage) error {
	connection := rabbitmq.Config{URL: c.AMQPURL.Reveal(), Name: service + " relay"}
	for {
		err := rabbitmq.KeepConnected(ctx, connection, func(ctx context.Context, s *rabbitmq.Session) error {
			defer waits.Reset()
			if err := s.Declare(topology); err != nil {
				return err
			}
			waits.WaitFor(stage.Nothing)
			return r.Run(ctx, broker{s, waits})
		})
		if _, mismatch := errors.AsType[*rabbitmq.MismatchError](err); !mismatch {
			return err
		}
		waits.WaitFor("a broker whose exchanges and queues are as this service declares them")
		slog.ErrorContext(ctx, "the relay does not run: the broker's topology is not ours", "in", mismatchPause.String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(mismatchPause):
			waits.Reset()
		}
	}
}

// broker adapts a session to the relay's interface.
type broker struct {
	*rabbitmq.Session
	waits *stage.Stage
}

// Unblocked waits until the broker takes messages. Meanwhile the page says so.
func (b broker) Unblocked(ctx context.Context) error {
	if b.Blocked() {
		b.waits.WaitFor("the broker to take messages: it has a memory or disk alarm")
		defer b.waits.WaitFor(stage.Nothing)
	}
	return b.Session.Unblocked(ctx)
}

// NewPublisher opens a channel.
func (b broker) NewPublisher(window int) (publish.Publisher, error) {
	return b.NewEventPublisher(window)
}
