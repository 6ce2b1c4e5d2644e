package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox/internal/source"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Relay publishes the events of an outbox to a destination.
//
//	to := rabbitmq.NewBroker(url, "outbox.events")
//	relay, err := outbox.NewRelay(pool, to, outbox.RelayConfig{})
//	group.Go(func() error { return relay.Run(ctx) })
//	// after each commit of an event:
//	relay.Wake()
//
// # One batch
//
//	claim a batch ─► publish all of it ─► wait for every confirm ─► mark in one statement
//
// Three things wake a worker: [Relay.Wake], a notification of another process, and a poll in case
// both are missed. It then processes batches until nothing is due. Each worker has its own
// publisher: with RabbitMQ, a channel.
//
// # What it promises
//
// An event is marked published only after the destination has confirmed it and routed it to at
// least one queue. After every other outcome it stays in the outbox:
//
//	outcome    what it means                          what happens
//	Confirmed  on disk, in a queue                    published
//	Returned   no queue is bound                      later, one of each topic; no attempt spent
//	Refused    a queue refused only some events       back-off; after MaxAttempts: failed
//	           the destination refused every event    probes, at pauses; no attempt spent
//	Unknown    closed, cut, or timed out              released at once; no attempt spent
//	Invalid    no destination can take it; never sent failed
//
// After an Unknown, a batch has one event until one succeeds. If the error is ErrSessionClosed, an
// event of the batch is the cause, and the relay does not know which. So if the
// batch had n events, the next n batches have one event each. If such a batch has the error again,
// its event is the cause: it spends an attempt. The others are published.
//
// After a Returned, events of that topic are not published for at most 15 s. They wait in the
// outbox, and the outbox makes one of them due again: the probe. When an event of the topic is
// confirmed, the others become due again in batches.
//
// A Refused counts as an attempt only if the destination has accepted another event since it last
// refused this one. If it has refused events of several aggregates and has accepted none, it is an
// outage, for example a cluster without its majority. Then the relay publishes one event of each
// topic, at growing pauses. The first event that is accepted ends the outage. If the destination
// refuses an event and accepts no other one, the event stays pending. Its pauses grow to 10 s.
//
// A failed event stays in the outbox until an operator replays or discards it: see package operate.
// The copy at the dead letters only informs. The relay tries only once to publish the copy. An
// event whose payload is missing is failed too, with the code no_payload.
//
// An outage is not the fault of any event. The relay runs only on a session, claims nothing
// while the destination blocks, and releases what it could not finish. An outage never ends Run,
// and each message about it is logged at most every 10 s.
//
// # When a step dies
//
//   - After the claim: the lease ends, and another worker claims the events.
//   - After the confirm and before the mark: the same, and the batch is published again with the
//     same ids. Consumers ignore the ids that they have already processed.
//   - Suspended for longer than its lease: the relay no longer holds the claim, so it cannot
//     release, retry or fail the events. It still marks those that were confirmed.
//
// # What it does not promise
//
// It does not promise that an event is published only once, nor any order between different
// aggregates.
type Relay struct {
	config      RelayConfig
	system      string // the destination's, for spans
	destination string
	to          publish.Destination
	pool        *pgxpool.Pool
	store       *store.Store
	events      source.Events // the store
	routes      *routes
	refusals    *refusals
	counters    counters
	state       state
	log         *lines
	others      *Waker // for the relays of other processes
	wake        chan struct{}
	// suspects is how many events may have made the broker close the channel. While there are
	// any, a batch has one event: if the broker closes the channel again, it is that event.
	// Each batch that succeeds clears one.
	suspects atomic.Int64
}

// NewRelay returns a relay that does nothing until Run. It returns an error that names the field if
// the settings cannot work.
func NewRelay(pool *pgxpool.Pool, to publish.Destination, c RelayConfig) (*Relay, error) {
	c = c.withDefaults()
	switch err := c.check(); {
	case pool == nil:
		return nil, errors.New("outbox: NewRelay needs a pool")
	case to == nil:
		return nil, errors.New("outbox: NewRelay needs a destination")
	case err != nil:
		return nil, err
	}
	s := store.New(pool)
	r := newRelay(s, to.System(), to.Name(), c)
	s.Logger = c.Logger
	r.pool, r.store, r.to = pool, s, to
	r.others = newWaker(notifyOn(pool), r.log)
	return r, nil
}

func newRelay(from source.Events, system, destination string, c RelayConfig) *Relay {
	log := newLines(c.Logger)
	return &Relay{
		config: c, events: from, system: system, destination: destination, wake: make(chan struct{}, 1), log: log,
		routes:   &routes{missing: map[string]missingRoute{}, log: log},
		refusals: &refusals{refused: map[uuid.UUID]refusal{}, log: log},
	}
}

// Wake says that an event was committed. It never blocks, and many calls cost no more than one. A
// worker of this relay then looks for events at once. If all of them are busy, the relays of other
// processes are notified.
func (r *Relay) Wake() {
	r.wakeWorker()
	if r.others != nil {
		r.others.Wake()
	}
}

func (r *Relay) wakeWorker() {
	select {
	case r.wake <- struct{}{}:
	default: // a wake-up is pending already, and one is enough
	}
}

// busy reports that no worker has received the last wake-up: all of them are publishing, or
// there is no session with the destination.
func (r *Relay) busy() bool { return len(r.wake) > 0 }

// Run publishes events until ctx ends, and keeps the tables small. When ctx ends, it finishes the
// batches in flight and returns nil. The wait for their confirms is not cut short.
//
// It returns an error only if waiting cannot help: [ErrNoSchema] if there are no tables when it
// starts, an error of the destination such as a wrong URL, or a second Run at the same time. While
// the database or the destination is not reachable, it waits.
func (r *Relay) Run(ctx context.Context) error {
	if !r.state.running.CompareAndSwap(false, true) {
		return errors.New("outbox: this relay runs already")
	}
	defer r.state.running.Store(false)
	if err := r.awaitSchema(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return r.store.RunJanitor(ctx, r.config.Retention) })
	if !r.config.NoListen {
		l := &listener{pool: r.pool, wake: r.wakeWorker, listening: &r.counters.listening, log: r.log}
		all.Go(func() error { return l.run(ctx) })
		all.Go(func() error { return r.others.run(ctx, r.busy) })
	}
	all.Go(func() error {
		err := r.to.KeepConnected(ctx, r.publishOn)
		if err == nil && ctx.Err() == nil {
			return fmt.Errorf("outbox: KeepConnected of %s returned before its context had ended", r.destination)
		}
		return err
	})
	return all.Wait()
}

// publishOn publishes events on a session until ctx ends, and then finishes the batches in flight.
// It returns an error when the session can no longer be used.
func (r *Relay) publishOn(ctx context.Context, session publish.Session) error {
	r.counters.sessions.Add(1)
	defer r.counters.sessions.Add(-1)
	defer r.counters.refusesAll.Store(false) // without a session it refuses nothing
	host, _ := os.Hostname()
	workers, ctx := errgroup.WithContext(ctx)
	for i := range r.config.Workers {
		workers.Go(func() error {
			publisher, err := session.NewPublisher(r.config.BatchSize)
			if err != nil {
				return err
			}
			w := &worker{Relay: r, session: session, publisher: publisher, name: fmt.Sprintf("%s/%d/%d", host, os.Getpid(), i)}
			return w.run(ctx)
		})
	}
	return workers.Wait()
}

const (
	// schemaSQL asks whether the tables are where the search_path leads.
	schemaSQL = `SELECT to_regclass('outbox_ring') IS NOT NULL AND to_regclass('outbox_queue') IS NOT NULL`

	schemaTimeout = 5 * time.Second
	schemaPause   = 500 * time.Millisecond
)

// awaitSchema waits until the database answers. It returns an error if there are no tables.
func (r *Relay) awaitSchema(ctx context.Context) error {
	r.state.database.Store(&errAwaited)
	for {
		there, err := r.hasSchema(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !there:
			return ErrNoSchema
		case err == nil:
			r.state.database.Store(nil)
			return nil
		}
		r.state.database.Store(&err)
		r.log.trouble(ctx, slog.LevelWarn, "the relay waits for the database", "error", err)
		wait(ctx, schemaPause)
	}
}

func (r *Relay) hasSchema(ctx context.Context) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	err = r.pool.QueryRow(ctx, schemaSQL).Scan(&there)
	return there, err
}

// Backlog counts the events that are not done. Above 200,000 the numbers are estimates.
func (r *Relay) Backlog(ctx context.Context) (Backlog, error) { return r.store.Backlog(ctx) }

// Backlog has the numbers of events that are not done. Its fields are:
//
//	Pending, InProgress, Failed int // events with this status
//	Unroutable int     // pending events that no queue is bound for
//	OldestDue  float64 // seconds since the oldest due event became due; 0 if none is due
//	SlotAge    float64 // seconds since new events go to the current part of the log
type Backlog = store.Backlog
