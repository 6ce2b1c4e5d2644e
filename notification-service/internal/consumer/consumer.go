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

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/batch"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Config is the consumer's policy.
type Config struct {
	Queue     string // where the messages come from, for the traces
	Workers   int    // e-mails that are sent at the same time
	BatchSize int    // messages in one transaction, and e-mails that are sent and not yet marked
	Prefetch  int    // unacknowledged messages
	// DeadLetterExchange is where copies of messages go that cannot have their effect.
	DeadLetterExchange string
	// RequeueExchange returns a copy to the queue.
	RequeueExchange string
	// RetryExchanges has the exchange of each retry queue: at least one, the shortest delay first.
	RetryExchanges []string
	// MaxHold is how long a message is held in place. It is a third of the broker's consumer
	// timeout.
	MaxHold time.Duration
	// Probes ask each dependency whether it answers. Their keys are the names that Unavailable
	// errors use: Database and mailer.MailServer.
	Probes map[string]func(ctx context.Context) error
}

// Effect is what a message does.
type Effect interface {
	// Parse reads a message. Its errors are permanent.
	Parse(m rabbitmq.Message) (notification.Event, error)
	// Record writes the effects of a batch, in the transaction that records the messages, and
	// leases what is still to be done. It does not commit.
	Record(ctx context.Context, tx pgx.Tx, requests []notification.Request) ([]notification.Notification, error)
	// AfterCommit gets each result of Record once its transaction is committed.
	AfterCommit(n notification.Notification)
	// Send does what no transaction can hold, under the lease.
	Send(ctx context.Context, n notification.Notification) error
	// MarkSent records that Send has returned nil. It makes at least one attempt, and
	// after ctx has ended no further one. An error means that ctx has ended: then the effect
	// is done, and its lease is not given back.
	MarkSent(ctx context.Context, n notification.Notification) error
	// Release gives back the lease of an effect that was not done.
	Release(ctx context.Context, id uuid.UUID)
	// Reject records that the effect will never happen: the message is a dead letter.
	Reject(ctx context.Context, id uuid.UUID, reason string) error
	// Run does the effect's own work until ctx ends.
	Run(ctx context.Context) error
}

// Inbox knows which messages have had their effect.
type Inbox interface {
	Record(ctx context.Context, tx pgx.Tx, messages []inbox.Message) ([]inbox.Result, error)
}

// Publisher publishes copies. Publish returns nil when the broker has confirmed the copy and
// routed it to a queue.
type Publisher interface {
	Publish(ctx context.Context, m rabbitmq.Message) error
}

// Consumer takes messages from a queue, and makes each have its effect.
type Consumer struct {
	config    Config
	db        *postgres.DB
	inbox     Inbox
	effect    Effect
	publisher Publisher
	metrics   *Metrics
	database  *gate
	mail      *gate
	records   *batch.Batcher[*delivery, recorded]
	sending   chan struct{} // one for each e-mail that is being sent
	// unmarked has one entry for each e-mail that is sent and not yet marked. A worker sends the
	// next e-mail while earlier ones are being marked. A SIGKILL repeats at most those that are
	// being sent, and these.
	unmarked chan struct{}
	inFlight inFlight
	clock    clock
	running  sync.WaitGroup // the goroutines that handle messages
	// finish ends when the messages in flight must end: some time after shutdown has begun. It
	// outlives a session.
	finish context.Context //nolint:containedctx // it belongs to no single call
	stop   context.CancelFunc
	// writing ends after that, when also the outcomes must be written.
	writing     context.Context //nolint:containedctx // it belongs to no single call
	stopWriting context.CancelFunc
	// mayPrefetch is set when a message is done that had not been delivered before. Until then
	// messages are taken one by one. The broker counts the death of a process against each
	// unacknowledged message, so a message that kills the process must be alone.
	mayPrefetch atomic.Bool
}

// New returns a consumer that does nothing until Run.
func New(config Config, db *postgres.DB, in Inbox, effect Effect, publisher Publisher, metrics *Metrics) *Consumer {
	c := &Consumer{
		config: config, db: db, inbox: in, effect: effect, publisher: publisher, metrics: metrics,
		sending:  make(chan struct{}, config.Workers),
		unmarked: make(chan struct{}, config.BatchSize),
		inFlight: inFlight{messages: map[uuid.UUID]*inFlightMessage{}},
	}
	gateFor := func(name string) *gate {
		return newGate(name, config.Probes[name], metrics.gateClosed.WithLabelValues(name))
	}
	c.database, c.mail = gateFor(Database), gateFor(mailer.MailServer)
	c.records = batch.New(config.BatchSize, c.record)
	c.finish, c.stop = context.WithCancel(context.Background())
	c.writing, c.stopWriting = context.WithCancel(context.Background())
	metrics.registerOldestAge(c.oldestAge)
	return c
}

const (
	// recorders is how many batches are recorded at the same time.
	recorders = 4
	// maxFinish is how long the messages in flight may take after shutdown has begun. An e-mail
	// that is still being sent then is broken off.
	maxFinish = 9 * time.Second
	// maxWriting is how long the outcomes may take to be written after that.
	maxWriting = 3 * time.Second
)

// Connections is how many connections to the database a consumer uses at the same time. The
// effect's marks and leases need two.
const Connections = recorders + 2

// Run does what all sessions with the broker share. It calls sessions, which must call Consume
// for each session until ctx ends. Run returns when the messages in flight are done: at most
// maxFinish and maxWriting after the end of ctx.
func (c *Consumer) Run(ctx context.Context, sessions func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(ctx, c.limitShutdown)()
	var shared errgroup.Group
	shared.Go(func() error { return c.database.watch(ctx) })
	shared.Go(func() error { return c.mail.watch(ctx) })
	shared.Go(func() error { return c.records.Run(c.writing, recorders) })
	shared.Go(func() error { return c.effect.Run(c.writing) })
	c.setClock(ctx)
	err := sessions(ctx)
	end()
	c.awaitMessages(c.writing) //nolint:contextcheck // the messages in flight outlive ctx
	c.stop()
	c.stopWriting()
	return errors.Join(err, shared.Wait())
}

// limitShutdown ends finish and writing, some time after the shutdown has begun.
func (c *Consumer) limitShutdown() {
	finish := time.AfterFunc(maxFinish, c.stop)
	writing := time.AfterFunc(maxFinish+maxWriting, c.stopWriting)
	context.AfterFunc(c.finish, func() { finish.Stop() })
	context.AfterFunc(c.writing, func() { writing.Stop() })
}

// setClock asks the database for the time. A dead letter carries it, and the first message may
// be dead-lettered before anything else has asked the database.
func (c *Consumer) setClock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = c.db.InSnapshot(ctx, func(tx pgx.Tx) error {
		now, err := postgres.ReadOne(ctx, tx, "SELECT now()", nil, pgx.RowTo[time.Time])
		if err == nil {
			c.clock.set(now)
		}
		return err
	})
}

// awaitMessages returns when no message is in flight, or when ctx ends.
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

// Unavailable lists the dependencies that messages wait for, by the names of [Config.Probes].
func (c *Consumer) Unavailable() (names []string) {
	for _, g := range []*gate{c.database, c.mail} {
		if !g.isOpen() {
			names = append(names, g.name)
		}
	}
	return names
}

// oldestAge is how long ago the oldest event in flight was committed.
func (c *Consumer) oldestAge() time.Duration {
	committedAt := c.inFlight.oldest()
	now, known := c.clock.now()
	if committedAt.IsZero() || !known {
		return 0
	}
	return max(0, now.Sub(committedAt))
}
