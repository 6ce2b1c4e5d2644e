package relay

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/grace"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Config is the relay's policy.
type Config struct {
	Exchange       string        // where events are published
	DeadLetters    string        // the exchange of the copies of failed events
	AppID          string        // who says so
	Workers        int           // each with its own channel
	BatchSize      int           // events of one claim
	PollInterval   time.Duration // the safety net below the wake-ups
	Lease          time.Duration // how long a claim holds; must outlast a pass
	ConfirmTimeout time.Duration // for all confirms of a batch together
	MaxAttempts    int           // refusals until an event is failed
	RetryBase      time.Duration // the first back-off
	RetryCap       time.Duration // the longest back-off
}

// Outbox is where the events are.
type Outbox interface {
	Claim(ctx context.Context, worker string, limit int, lease time.Duration) (outbox.Claim, error)
	MarkPublished(ctx context.Context, ids []uuid.UUID) error
	Reschedule(ctx context.Context, token uuid.UUID, setbacks []outbox.Setback) (held int, err error)
	BringBack(ctx context.Context, key string, limit int) (int, error)
	Release(ctx context.Context, token uuid.UUID, ids []uuid.UUID) (held int, err error)
	Fail(ctx context.Context, token uuid.UUID, failure outbox.Setback) (at time.Time, held int, err error)
}

// Broker is a session with the broker.
type Broker interface {
	// NewPublisher opens a channel for batches of at most window events.
	NewPublisher(window int) (Publisher, error)
	// Unblocked waits until the broker takes messages.
	Unblocked(ctx context.Context) error
}

// Publisher publishes a batch and waits for the outcomes, in the order of the
// messages. After an Unknown it is not used again.
type Publisher interface {
	Publish(messages []rabbitmq.Message, timeout time.Duration) []rabbitmq.Result
	Close()
}

// Relay moves events from an outbox to brokers, one session after the other.
type Relay struct {
	config  Config
	outbox  Outbox
	metrics *Metrics
	routes  routes
	wake    chan struct{}
	// suspects is how many events may be the one over which the broker closed the channel.
	// While there are any, a batch has one event, so that the next closed channel shows which
	// one it is. Each pass that succeeds clears one.
	suspects atomic.Int64
}

// New returns a relay that does nothing until Run.
func New(config Config, events Outbox, metrics *Metrics) *Relay {
	return &Relay{
		config: config, outbox: events, metrics: metrics, wake: make(chan struct{}, 1),
		routes: routes{missing: map[string]missingRoute{}},
	}
}

// Wake tells the relay that an event was committed. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // a wake-up is pending already, and one is enough
	}
}

// Run relays over broker until ctx ends, and then finishes what is in flight. It
// returns an error when the session is of no more use.
func (r *Relay) Run(ctx context.Context, broker Broker) error {
	r.metrics.up.Set(1)
	defer r.metrics.up.Set(0)
	host, _ := os.Hostname()
	workers, ctx := errgroup.WithContext(ctx)
	for i := range r.config.Workers {
		workers.Go(func() error {
			publisher, err := broker.NewPublisher(r.config.BatchSize)
			if err != nil {
				return err
			}
			w := &worker{
				Relay: r, broker: broker, publisher: publisher,
				name: fmt.Sprintf("%s/%d/%d", host, os.Getpid(), i),
			}
			return w.run(ctx)
		})
	}
	return workers.Wait()
}

// worker is one loop with one channel.
type worker struct {
	*Relay
	broker    Broker
	publisher Publisher
	name      string
	claims    int // that failed since the last good one
}

func (w *worker) run(ctx context.Context) error {
	poll := time.NewTicker(w.config.PollInterval)
	defer poll.Stop()
	for {
		if err := w.drain(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-poll.C:
		}
	}
}

// breather is the pause after a batch that was not full: what is committed meanwhile
// makes one larger batch instead of many tiny ones, each of which costs the database
// as much as a large one. The first event after a quiet time does not wait.
const breather = 2 * time.Millisecond

// drain passes until nothing is due.
func (w *worker) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		if w.broker.Unblocked(ctx) != nil {
			return nil
		}
		limit := w.limit()
		claimed, err := w.pass(ctx, limit)
		if err != nil || claimed == 0 {
			return err
		}
		if claimed < limit {
			pause(ctx, breather)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// limit is how many events the next claim may take.
func (w *worker) limit() int {
	if w.suspects.Load() > 0 {
		return 1
	}
	return w.config.BatchSize
}

// pass claims at most limit events, publishes and settles them. It returns an error
// only when the session is of no more use; trouble with the outbox is logged and
// waits for the next poll.
func (w *worker) pass(ctx context.Context, limit int) (claimed int, err error) {
	// From here on the batch is finished, whether ctx ends or not. The claim too: one
	// that is broken off may be committed all the same, and nobody would have its
	// events until the lease ends.
	finish, done := grace.Period(ctx, maxFinish)
	defer done()
	began := time.Now()
	claim, err := w.claim(finish, limit)
	if err != nil {
		if ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot claim from the outbox", "error", err)
		}
		return 0, nil
	}
	if len(claim.Events) == 0 {
		return 0, nil
	}
	if len(claim.Events) == limit {
		w.Wake() // there may be more than this worker can carry
	}
	slog.InfoContext(ctx, "outbox events fetched", "count", len(claim.Events), "worker", w.name)

	crashpoint.At("relay.claimed")
	claimed = len(claim.Events)
	var waiting []outbox.Setback
	claim.Events, waiting = w.routes.split(claim.Events)
	batch := w.messages(finish, claim.Events)
	results := w.publisher.Publish(batch.messages, w.config.ConfirmTimeout)
	s := w.config.decide(claim.Events, results)
	s.later = append(s.later, waiting...)
	w.metrics.count(batch, results, time.Since(began)) //nolint:contextcheck // each message has the context of its own trace
	batch.end(results, s.outcomes)                     //nolint:contextcheck // the same
	err = w.settle(finish, claim, s)
	w.followRoutes(finish, claim.Events, results)
	if err != nil {
		// A broker that blocks is still there: connecting again would change nothing.
		_ = w.broker.Unblocked(ctx)
		return 0, err
	}
	return claimed, w.renewAfterRefusal(results)
}

// claim has a deadline of its own. What it claimed beyond that is free when the lease ends.
func (w *worker) claim(ctx context.Context, limit int) (outbox.Claim, error) {
	w.claims++
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(w.claims))
	defer cancel()
	claim, err := w.outbox.Claim(ctx, w.name, limit, w.config.Lease)
	if err == nil {
		w.claims = 0
	}
	return claim, err
}

// renewAfterRefusal opens another channel after a queue has refused something. RabbitMQ
// 3.10 goes on refusing on the old one when the queue takes messages again, because its
// limit was lifted: attempt after attempt, until the events would fail.
func (w *worker) renewAfterRefusal(results []rabbitmq.Result) (err error) {
	refused := func(r rabbitmq.Result) bool { return r.Outcome == rabbitmq.Refused }
	if !slices.ContainsFunc(results, refused) {
		return nil
	}
	w.publisher.Close()
	w.publisher, err = w.broker.NewPublisher(w.config.BatchSize)
	return err
}

// maxFinish is how long a batch may take after the relay was asked to end. It leaves
// the process time to end within the 25 s that it has.
const maxFinish = 15 * time.Second
