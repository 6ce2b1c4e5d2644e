package relay

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Config is the relay's policy.
type Config struct {
	System         string        // the broker's name in spans, for example rabbitmq
	Destination    string        // where events are published: an exchange
	DeadLetters    string        // the destination of copies of failed events
	AppID          string        // the app_id of each message
	Workers        int           // each has its own channel
	BatchSize      int           // the most events of one claim
	PollInterval   time.Duration // how often a worker looks for events without a wake-up
	Lease          time.Duration // how long a claim is valid; must be longer than a batch takes
	ConfirmTimeout time.Duration // bounds the wait for all confirms of a batch
	MaxAttempts    int           // after so many refusals an event is failed
	RetryBase      time.Duration // the first back-off
	RetryCap       time.Duration // the longest back-off
}

// Outbox stores the events.
type Outbox interface {
	Claim(ctx context.Context, worker string, limit int, lease time.Duration) (outbox.Claim, error)
	MarkPublished(ctx context.Context, token uuid.UUID, ids []uuid.UUID) error
	Reschedule(ctx context.Context, token uuid.UUID, failures []outbox.Failure) (held int, err error)
	RetryUnroutable(ctx context.Context, key string, limit int) (int, error)
	Release(ctx context.Context, token uuid.UUID) (held bool, err error)
	Fail(ctx context.Context, token uuid.UUID, failure outbox.Failure) (at time.Time, held int, err error)
}

// Relay publishes the events of an outbox. Run is called for one session after the other.
type Relay struct {
	config   Config
	outbox   Outbox
	metrics  *Metrics
	routes   *routes
	refusals *refusals
	wake     chan struct{}
	// suspects is how many events may have made the broker close the channel. While there are
	// any, a batch has one event: if the broker closes the channel again, it is that event.
	// Each batch that succeeds clears one.
	suspects atomic.Int64
}

// New returns a relay that does nothing until Run.
func New(config Config, events Outbox, metrics *Metrics) *Relay {
	return &Relay{
		config: config, outbox: events, metrics: metrics, wake: make(chan struct{}, 1),
		routes:   &routes{missing: map[string]missingRoute{}},
		refusals: &refusals{refused: map[uuid.UUID]refusal{}},
	}
}

// Beside makes r share what other learns about the broker: which keys have no queue, and what the
// broker refuses. It is for two relays of one process that publish different events of the same
// outbox. Call it before Run.
func (r *Relay) Beside(other *Relay) { r.routes, r.refusals = other.routes, other.refusals }

// Wake says that an event was committed. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // a wake-up is pending already, and one is enough
	}
}

// Busy reports that no worker has received the last wake-up: all of them are publishing, or
// there is no session with the broker.
func (r *Relay) Busy() bool { return len(r.wake) > 0 }

// Run publishes events on broker until ctx ends, and then finishes the batches in flight. It
// returns an error when the session can no longer be used.
func (r *Relay) Run(ctx context.Context, broker publish.Session) error {
	r.metrics.up.Set(1)
	defer r.metrics.up.Set(0)
	defer r.metrics.refusesAll.Set(0) // without a session it refuses nothing
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
