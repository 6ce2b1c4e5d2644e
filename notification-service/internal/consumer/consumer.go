package consumer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/inbox"
)

// Config is the consumer's policy.
type Config struct {
	Queue       string        // where the messages come from, for the traces
	Workers     int           // deliveries handled at the same time
	Prefetch    int           // messages out unacknowledged, over all workers
	DeadLetters string        // the exchange of the dead letters
	Retries     []string      // the exchange of each retry tier, at least one, the shortest first
	MaxHold     time.Duration // how long a message is held in place; far below the broker's consumer timeout
	// Probes ask what messages need whether it is there, by the names that Unavailable
	// errors use. Database is one of them.
	Probes map[string]func(ctx context.Context) error
}

// Effect is what the messages of one event type cause.
type Effect[E any] interface {
	// Parse reads a message. Its errors are permanent.
	Parse(m rabbitmq.Message) (E, error)
	// Record commits to the effect, in the transaction that records the message id:
	// it is called once for each id.
	Record(ctx context.Context, tx *postgres.Tx, id uuid.UUID, event E) error
	// Complete does what no transaction can hold, after Record is committed. It is
	// called for every delivery, repeats too, and finds out from the state of the
	// effect whether there was anything left to do.
	Complete(ctx context.Context, id uuid.UUID) (left bool, err error)
}

// Inbox knows which messages have had their effect.
type Inbox interface {
	Record(ctx context.Context, tx *postgres.Tx, m inbox.Message) (inbox.Verdict, error)
}

// Queue is where messages come from. At most prefetch of them are out at any time.
type Queue interface {
	Consume(prefetch int) (Deliveries, error)
}

// Deliveries are messages that are out. Next may be called from many goroutines;
// Close gives back what is not acknowledged.
type Deliveries interface {
	Next(ctx context.Context) (rabbitmq.Delivery, error)
	Close()
}

// Outlet is where copies go. Publish returns nil when the broker has confirmed the
// copy and routed it to a queue.
type Outlet interface {
	Publish(ctx context.Context, m rabbitmq.Message) error
}

// Consumer turns deliveries into effects.
type Consumer[E any] struct {
	config       Config
	db           *postgres.DB
	inbox        Inbox
	effect       Effect[E]
	outlet       Outlet
	metrics      *Metrics
	dependencies map[string]*dependency
	// trusted is set by the first delivery after the start that is not a repeat and
	// comes to its end. Until then messages come one by one, so that one which kills
	// the process takes nobody along: the broker counts the death for each message
	// that is out.
	trusted atomic.Bool
}

// New returns a consumer that does nothing until Run.
func New[E any](config Config, db *postgres.DB, in Inbox, effect Effect[E], outlet Outlet, metrics *Metrics) *Consumer[E] {
	c := &Consumer[E]{
		config: config, db: db, inbox: in, effect: effect, outlet: outlet, metrics: metrics,
		dependencies: map[string]*dependency{},
	}
	for name, probe := range config.Probes {
		c.dependencies[name] = newDependency(name, probe, metrics.gateClosed.WithLabelValues(name))
	}
	return c
}

// Run handles the messages of queue until ctx ends, and then finishes those that are
// in hand. It returns an error when no more messages will come.
func (c *Consumer[E]) Run(ctx context.Context, queue Queue) error {
	c.metrics.up.Set(1)
	defer c.metrics.up.Set(0)
	watching, stopWatching := context.WithCancel(ctx)
	var watchers errgroup.Group
	for _, d := range c.dependencies {
		watchers.Go(func() error { d.watch(watching); return nil })
	}
	defer func() {
		stopWatching()
		_ = watchers.Wait()
	}()
	if err := c.workCarefully(ctx, queue); err != nil || ctx.Err() != nil {
		return err
	}
	return c.workTogether(ctx, queue)
}

// workCarefully handles one message at a time until one has earned the trust.
func (c *Consumer[E]) workCarefully(ctx context.Context, queue Queue) error {
	if c.trusted.Load() {
		return nil
	}
	deliveries, err := queue.Consume(1)
	if err != nil {
		return err
	}
	defer deliveries.Close()
	return c.work(ctx, deliveries, c.trusted.Load)
}

func (c *Consumer[E]) workTogether(ctx context.Context, queue Queue) error {
	deliveries, err := queue.Consume(c.config.Prefetch)
	if err != nil {
		return err
	}
	workers, ctx := errgroup.WithContext(ctx)
	for range c.config.Workers {
		workers.Go(func() error {
			return c.work(ctx, deliveries, func() bool { return false })
		})
	}
	return workers.Wait()
}

// work handles one delivery after the other, until enough or the end of ctx.
func (c *Consumer[E]) work(ctx context.Context, deliveries Deliveries, enough func() bool) error {
	for !enough() {
		d, err := deliveries.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if settled := c.deliver(ctx, d); settled && !d.Redelivered {
			c.trusted.Store(true)
		}
	}
	return nil
}
