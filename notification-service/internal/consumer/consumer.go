package consumer

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
)

// Effect is what the messages of one event type cause.
type Effect[E any] interface {
	// Parse reads a message. Its errors are permanent.
	Parse(m rabbitmq.Message) (E, error)
	// Record commits to the effect, in the transaction that records the message id:
	// it is called once for each id.
	Record(ctx context.Context, tx *postgres.Tx, id uuid.UUID, event E) error
	// Complete does what no transaction can hold, after Record is committed. It is
	// called for every delivery, repeats too, and finds out from the state of the
	// effect whether there is anything left to do.
	Complete(ctx context.Context, id uuid.UUID) error
}

// Deliveries is where messages come from. Next may be called from many goroutines.
type Deliveries interface {
	Next(ctx context.Context) (rabbitmq.Delivery, error)
}

// DeadLetters is where messages go that will never succeed. Publish returns nil
// when the broker has confirmed the copy and routed it to a queue.
type DeadLetters interface {
	Publish(ctx context.Context, m rabbitmq.Message) error
}

// Consumer turns deliveries into effects.
type Consumer[E any] struct {
	config      Config
	db          *postgres.DB
	effect      Effect[E]
	deadLetters DeadLetters
}

// Config is how the consumer works.
type Config struct {
	Workers            int    // deliveries handled at the same time
	DeadLetterExchange string // where copies of dead letters are published
}

// New returns a consumer that does nothing until Run.
func New[E any](config Config, db *postgres.DB, effect Effect[E], deadLetters DeadLetters) *Consumer[E] {
	return &Consumer[E]{config: config, db: db, effect: effect, deadLetters: deadLetters}
}

// Run handles deliveries until ctx ends, and then finishes those that are in hand.
// It returns an error when no more deliveries will come.
func (c *Consumer[E]) Run(ctx context.Context, deliveries Deliveries) error {
	workers, ctx := errgroup.WithContext(ctx)
	for range c.config.Workers {
		workers.Go(func() error { return c.work(ctx, deliveries) })
	}
	return workers.Wait()
}

func (c *Consumer[E]) work(ctx context.Context, deliveries Deliveries) error {
	for {
		d, err := deliveries.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c.deliver(ctx, d)
	}
}
