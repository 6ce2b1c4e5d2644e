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

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Relay is the workers of a process, and what they share.
type Relay struct {
	config     *Config
	to         publish.Destination
	store      Store
	topics     *topics
	pace       *pace
	caution    caution
	unanswered *unanswered
	late       *late
	report     *reporter
	health     health
	wake       chan struct{} // for a worker
	tryTopics  chan struct{} // for the worker that tries paused topics
	bytes      atomic.Int64  // of the payloads in flight
	draining   atomic.Int64  // workers whose place another one has, and that wait for late answers
}

// Store is what a relay needs of package store. In virtual time, tests have another one.
type Store interface {
	Claim(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error)
	ClaimProbes(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error)
	Settle(ctx context.Context, s store.Settlement) (store.Settled, error)
	Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) (held []uuid.UUID, err error)
}

// New returns a relay that does nothing until Run. The settings come from Checked.
func New(from Store, to publish.Destination, c Config) *Relay {
	c.SlowAfter = min(c.SlowAfter, c.ConfirmTimeout)
	r := &Relay{
		config: &c, to: to, store: from, topics: newTopics(), pace: newPace(&c),
		late: newLate(), report: newReporter(&c, to),
		wake: make(chan struct{}, 1), tryTopics: make(chan struct{}, 1),
	}
	r.unanswered = newUnanswered(to, r.late)
	return r
}

// Wake wakes a worker.
func (r *Relay) Wake() { signal(r.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is pending already, and one is enough
	}
}

// Busy reports that no worker has received the last wake-up: all of them are publishing, the
// destination asks to wait, or there is no session.
func (r *Relay) Busy() bool { return len(r.wake) > 0 }

// Run runs the workers until ctx ends, and until what they have in flight is finished.
func (r *Relay) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	by, cancel := newDeadlines(ctx, r.config.ShutdownTimeout)
	defer cancel()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	keep := func(name string, isProbe bool) error {
		return r.keepWorking(ctx, &sessions, func(ctx context.Context, session publish.Session) *worker {
			p := r.pace
			if isProbe {
				p = newPace(r.config)
			}
			w := r.newWorker(ctx, session, p, by)
			w.name, w.isProbe = name, isProbe
			return w
		})
	}
	host, _ := os.Hostname()
	prefix := fmt.Sprintf("%s/%d/", host, os.Getpid())
	for i := range r.config.Workers {
		all.Go(func() error { return keep(prefix+strconv.Itoa(i), false) })
	}
	all.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-r.tryTopics: // a topic is paused
			}
			if err := keep(prefix+"probes", true); err != nil {
				return err
			}
		}
	})
	return all.Wait()
}

func (r *Relay) newDatabase(l *leases, by deadlines) *database {
	return &database{
		config: r.config, store: r.store, log: r.report.log, health: &r.health, counters: r.report.counters,
		caution: &r.caution, leases: l, by: by, turn: make(chan struct{}, 1),
	}
}

// newWorker returns a worker that begins nothing more when ctx ends.
func (r *Relay) newWorker(ctx context.Context, session publish.Session, p *pace, by deadlines) *worker {
	_, isOneByOne := session.(publish.OneByOne)
	if r.caution.isOn.Store(isOneByOne); isOneByOne && p == r.pace { // probes begin with one
		p.restart(r.config.Workers * r.config.Window)
	}
	ctx, finish := context.WithCancel(ctx)
	l := &leases{config: r.config, held: map[uuid.UUID]*lease{}}
	return &worker{
		config: r.config, topics: r.topics, by: by, leases: l, database: r.newDatabase(l, by), renewals: r.newDatabase(l, by),
		window: newWindow(&r.bytes, p), pace: p,
		sender: &sender{
			config: r.config, session: session, isOneByOne: isOneByOne, ctx: ctx, finish: finish, pace: p,
			unanswered: r.unanswered, changed: make(chan struct{}, 1),
		},
		schedule: schedule{isDue: true}, unanswered: r.unanswered, late: r.late, report: r.report,
		wake: r.wake, tryTopics: r.tryTopics, last: make(chan struct{}),
	}
}

// deadlines are when the work of a relay must end, after Run's context has ended.
type deadlines struct {
	answers    context.Context // ends with ShutdownTimeout: nothing waits for an answer, or pauses, any more
	publishers context.Context // ends a little later, when publishers must be closed
	statements context.Context // ends last, when no statement may run any more
}

func newDeadlines(ctx context.Context, timeout time.Duration) (d deadlines, cancel func()) {
	var cancels [3]func()
	d.answers, cancels[0] = after(ctx, timeout)
	d.publishers, cancels[1] = after(d.answers, lastStatementTimeout*3/4)
	d.statements, cancels[2] = after(d.answers, lastStatementTimeout)
	return d, func() { cancels[0](); cancels[1](); cancels[2]() }
}

// maxDraining bounds the connections that are kept for late answers, by one relay. Each worker
// replaces its own once a second at most, and each is kept for up to twice ConfirmTimeout. At the
// limit a worker stays on a connection that answers nothing, and the topics of what it sends pause.
const maxDraining = 32

// keepWorking runs a worker on one connection after the other, until ctx ends; a worker for
// probes only until no topic is paused. If the destination does not read a connection any more, the
// worker is replaced by another one with a new connection. The old one stays until all is answered,
// or no late answer counts any more.
func (r *Relay) keepWorking(ctx context.Context, sessions *sync.WaitGroup, newWorker func(context.Context, publish.Session) *worker) error {
	for {
		stay, leave := context.WithCancel(ctx)
		ended, replaced := make(chan error, 1), make(chan struct{})
		sessions.Go(func() {
			defer leave()
			err := r.to.KeepConnected(stay, func(ctx context.Context, session publish.Session) error {
				w, isReplaced := newWorker(ctx, session), false
				w.replace = func() bool {
					if isReplaced = r.draining.Add(1) <= maxDraining; isReplaced {
						close(replaced)
					} else {
						r.draining.Add(-1)
					}
					return isReplaced
				}
				r.health.sessions.Add(1)
				defer r.health.endSession()
				err := w.run(ctx)
				if isReplaced {
					r.draining.Add(-1)
				}
				if isReplaced || w.schedule.isDone {
					leave() // it needs no other session
				}
				return err
			})
			if err == nil && stay.Err() == nil {
				err = fmt.Errorf("outbox: KeepConnected of %s returned before its context had ended", r.report.destination)
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

// Wait reports whether d has passed before ctx ended.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
