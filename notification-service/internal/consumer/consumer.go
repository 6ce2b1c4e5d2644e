package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/grace"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/batch"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// Config is the consumer's policy.
type Config struct {
	Queue       string        // where the messages come from, for the traces
	Workers     int           // e-mails that are sent at the same time
	BatchSize   int           // messages recorded in one transaction
	Prefetch    int           // messages out unacknowledged
	DeadLetters string        // the exchange of the dead letters
	Retries     []string      // the exchange of each retry tier, at least one, the shortest first
	MaxHold     time.Duration // how long a message is held in place; far below the broker's consumer timeout
	// Probes ask each dependency whether it answers. Their keys are the names that Unavailable
	// errors use: Database and notification.MailServer.
	Probes map[string]func(ctx context.Context) error
}

// Effect is what messages cause.
type Effect interface {
	// Parse reads a message. Its errors are permanent.
	Parse(m rabbitmq.Message) (notification.Event, error)
	// Record writes the effects of a batch, in the transaction that records the messages, and
	// leases what is still to be done. It does not commit.
	Record(ctx context.Context, tx *postgres.Tx, requests []notification.Request) ([]notification.Notification, error)
	// Leased is told of each result of Record once its transaction is committed.
	Leased(n notification.Notification)
	// Send does what no transaction can hold, under the lease, and returns nil when that
	// is done and written down.
	Send(ctx context.Context, n notification.Notification) error
	// Release gives back the lease of an effect that was not done.
	Release(ctx context.Context, id uuid.UUID)
	// Reject notes that the effect will never happen: the message is a dead letter.
	Reject(ctx context.Context, id uuid.UUID, reason string) error
	// Run does the effect's own work until ctx ends.
	Run(ctx context.Context) error
}

// Inbox knows which messages have had their effect.
type Inbox interface {
	Record(ctx context.Context, tx *postgres.Tx, messages []inbox.Message) ([]inbox.Verdict, error)
}

// Outlet is where copies go. Publish returns nil when the broker has confirmed the
// copy and routed it to a queue.
type Outlet interface {
	Publish(ctx context.Context, m rabbitmq.Message) error
}

// Consumer turns deliveries into effects.
type Consumer struct {
	config   Config
	db       *postgres.DB
	inbox    Inbox
	effect   Effect
	outlet   Outlet
	metrics  *Metrics
	database *breaker
	mail     *breaker
	records  *batch.Batcher[*message, recorded]
	slots    chan struct{} // one for each e-mail that is being sent, or sent and not yet marked
	inHand   inHand
	clock    clock
	running  sync.WaitGroup  // messages in hand
	finish   context.Context //nolint:containedctx // ends when what is in hand must end
	stop     context.CancelFunc
	// trusted is set when a message is done that had not been delivered before. Until then
	// messages come one by one. The broker counts the death of a process against each message
	// that is unacknowledged, so a message that kills the process must be alone.
	trusted atomic.Bool
}

// New returns a consumer that does nothing until Run.
func New(config Config, db *postgres.DB, in Inbox, effect Effect, outlet Outlet, metrics *Metrics) *Consumer {
	c := &Consumer{
		config: config, db: db, inbox: in, effect: effect, outlet: outlet, metrics: metrics,
		slots:  make(chan struct{}, config.Workers),
		inHand: inHand{held: map[uuid.UUID]*holder{}},
	}
	named := func(name string) *breaker {
		return newBreaker(name, config.Probes[name], metrics.gateClosed.WithLabelValues(name))
	}
	c.database, c.mail = named(Database), named(notification.MailServer)
	c.records = batch.New(config.BatchSize, c.record)
	c.finish, c.stop = context.WithCancel(context.Background())
	metrics.oldest(c.oldestAge)
	return c
}

const (
	// recorders is how many batches are recorded at the same time.
	recorders = 4
	// maxFinish is how long what is in hand may take after the consumer was asked to end:
	// an e-mail that is being sent by then is broken off.
	maxFinish = 9 * time.Second
	// maxWriting is how long it may take until the outcome is written, from then on.
	maxWriting = 3 * time.Second
)

// Connections is how many connections to the database a consumer uses at the same time.
const Connections = recorders + 2 // the effect's marks and leases

// Run calls sessions, which calls Take for each session with the broker until ctx ends. It
// does what all sessions share, and ends when the messages in hand are done: at most
// maxFinish and maxWriting after ctx.
func (c *Consumer) Run(ctx context.Context, sessions func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	writing, stopWriting := grace.Period(ctx, maxFinish+maxWriting)
	defer stopWriting()
	defer context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(maxFinish, c.stop)
		context.AfterFunc(c.finish, func() { timer.Stop() })
	})()
	var shared errgroup.Group
	shared.Go(func() error { return c.database.watch(ctx) })
	shared.Go(func() error { return c.mail.watch(ctx) })
	shared.Go(func() error { return c.records.Run(writing, recorders) })
	shared.Go(func() error { return c.effect.Run(writing) })
	c.learnTime(ctx)
	err := sessions(ctx)
	end()
	c.awaitMessages(writing)
	c.stop()
	stopWriting()
	return errors.Join(err, shared.Wait())
}

// learnTime asks the database for the time. A dead letter carries it, and the first message
// may become one before anything else has asked the database.
func (c *Consumer) learnTime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = c.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		now, err := postgres.ReadOne(ctx, tx, "SELECT now()", nil, pgx.RowTo[time.Time])
		if err == nil {
			c.clock.set(now)
		}
		return err
	})
}

// awaitMessages returns when nothing is in hand, or when ctx ends.
func (c *Consumer) awaitMessages(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.running.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Waiting lists what messages wait for, by the names of [Config.Probes].
func (c *Consumer) Waiting() (names []string) {
	for _, b := range []*breaker{c.database, c.mail} {
		if !b.isOpen() {
			names = append(names, b.name)
		}
	}
	return names
}

// oldestAge is how long ago the event of the oldest message in hand was committed.
func (c *Consumer) oldestAge() time.Duration {
	since := c.inHand.oldest()
	now, known := c.clock.now()
	if since.IsZero() || !known {
		return 0
	}
	return max(0, now.Sub(since))
}
