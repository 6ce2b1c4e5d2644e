// Package relay is the workers of an outbox.Relay: they claim events, send them, and record the answers.
package relay

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox/internal/quietlog"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Relay is the workers of a process, and what they share.
type Relay struct {
	config      Config
	destination string
	to          publish.Destination
	events      Store
	topics      *topics
	losses      *losses
	counters    *counters
	health      health
	log         *quietlog.Log
	wake        chan struct{} // for a worker
	tryTopics   chan struct{} // for the worker that tries paused topics

	replacedWorkers atomic.Int64 // that still have events in flight
	unrecorded      atomic.Int64 // workers that could not record what they have sent
	bytes           atomic.Int64 // of the payloads in flight
	unanswered      unanswered
	saysNoAnswer    atomic.Bool // the log
}

// Store is what a relay needs of package store. In virtual time, tests have another one.
type Store interface {
	Claim(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error)
	ClaimTrials(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error)
	Settle(ctx context.Context, s store.Settlement) (store.Settled, error)
	Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) (held []uuid.UUID, err error)
}

// New returns a relay that does nothing until Run. The settings are checked.
func New(from Store, to publish.Destination, c Config) *Relay {
	return &Relay{
		config: c, events: from, to: to, destination: to.Name(), topics: newTopics(), losses: newLosses(),
		wake: make(chan struct{}, 1), tryTopics: make(chan struct{}, 1), log: quietlog.New(c.Logger), counters: newCounters(),
		unanswered: unanswered{events: map[uuid.UUID]bool{}, overdue: map[*sending]bool{}},
	}
}

// Wake wakes a worker.
func (r *Relay) Wake() { signal(r.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is pending already, and one is enough
	}
}

// Busy reports that no worker has received the last wake-up: all of them are publishing, or
// there is no session with the destination.
func (r *Relay) Busy() bool { return len(r.wake) > 0 }

// Run runs the workers until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	host, _ := os.Hostname()
	all, ctx := errgroup.WithContext(ctx)
	over, cancelOver := after(ctx, r.config.ShutdownTimeout)
	defer cancelOver()
	lastCall, cancelCall := after(over, lastStatementTimeout)
	defer cancelCall()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	keep := func(name string, trials bool) error {
		return r.keepWorking(ctx, &sessions, func(session publish.Session) *worker {
			return &worker{
				Relay: r, name: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), name), trials: trials, tries: 1, over: over,
				lastCall: lastCall, session: session, answers: answers{some: make(chan struct{}, 1)},
			}
		})
	}
	for i := range r.config.Workers {
		all.Go(func() error { return keep(strconv.Itoa(i), false) })
	}
	all.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-r.tryTopics: // a topic is paused
			}
			if err := keep("trials", true); err != nil {
				return err
			}
		}
	})
	return all.Wait()
}

// usefulAfter is how long a session must last to count, if nothing was taken.
const usefulAfter = 15 * time.Second

// maxReplaced bounds the connections that are kept for late answers, by one relay. Each worker
// replaces its own once a second at most, and each is kept for ConfirmTimeout. With the defaults,
// two workers and the one for trial events keep up to 30. At the limit a worker stays on a
// connection that answers nothing, and the topics of what it sends pause.
const maxReplaced = 32

// keepWorking runs a worker on one connection after the other, until ctx ends; a worker for trial
// events only until no topic is paused. If the destination does not read a connection any more, the
// worker is replaced by another one with a new connection. It stays until all that it has in flight
// is answered or too late.
func (r *Relay) keepWorking(ctx context.Context, sessions *sync.WaitGroup, newWorker func(publish.Session) *worker) error {
	for {
		stay, leave := context.WithCancel(ctx)
		ended, replaced := make(chan error, 1), make(chan struct{})
		sessions.Go(func() {
			defer leave()
			err := r.to.KeepConnected(stay, func(ctx context.Context, session publish.Session) error {
				w := newWorker(session)
				w.leave = leave
				_, w.oneByOne = session.(publish.OneByOne)
				w.replace = func() { close(replaced) } // a worker is replaced once: it claims no more
				r.health.sessions.Add(1)
				began := time.Now()
				defer func() {
					r.health.endSession(time.Since(began) > usefulAfter || r.topics.lastTakenOfAll().After(began))
				}()
				return w.run(ctx)
			})
			if err == nil && stay.Err() == nil {
				err = fmt.Errorf("outbox: KeepConnected of %s returned before its context had ended", r.destination)
			}
			ended <- err
		})
		select {
		case err := <-ended:
			return err
		case <-replaced:
		}
	}
}

// wait reports whether d has passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
