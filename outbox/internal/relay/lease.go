package relay

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// lease is the time in which the events of a claim may be sent. When it is over, another relay may
// have them, and may send a later event of the same aggregate. It is counted by this process, from
// before the claim was asked for, so it ends here before it ends in the database.
type lease struct {
	until atomic.Int64 // nanoseconds after epoch
	over  context.Context
	end   context.CancelFunc
}

// epoch makes durations of the monotonic clock.
var epoch = time.Now()

var errLeaseEnded = errors.New("the lease has ended, or nothing can be marked")

func newLease(from time.Time, d time.Duration) *lease {
	l := &lease{}
	l.over, l.end = context.WithCancel(context.Background())
	l.extend(from, d)
	return l
}

// extend makes the lease end that much after a time.
func (l *lease) extend(from time.Time, d time.Duration) { l.until.Store(int64(from.Sub(epoch) + d)) }

func (l *lease) ended() bool {
	return l.over.Err() != nil || int64(time.Since(epoch)) >= l.until.Load()
}

// leased is a context that ends with a lease. Err looks at the clock: a process that was suspended
// may go on before any timer fires.
type leased struct {
	context.Context
	*lease
}

func (l leased) Err() error {
	if err := l.Context.Err(); err != nil || !l.ended() {
		return err
	}
	return errLeaseEnded
}

// renewEvery is how often the leases of what is in flight are renewed.
const renewEvery = time.Second

// renew makes the leases of what is in flight longer.
func (w *worker) renew(ctx context.Context) {
	if w.inFlight.empty() || time.Since(w.renewed) < renewEvery {
		return
	}
	w.renewed = time.Now()
	var held []uuid.UUID
	failures := w.failures
	ok := w.execute(ctx, w.lastCall, "cannot renew leases", func(ctx context.Context) (err error) {
		held, err = w.events.Renew(ctx, w.inFlight.tokens(), w.config.Lease)
		return err
	})
	if ok {
		w.failures = failures // of a mark, which may need more time than a renewal
	}
	for _, b := range w.inFlight.batches {
		switch {
		case !ok:
		case slices.Contains(held, b.token):
			b.lease.extend(w.renewed, w.config.Lease)
		default:
			b.lease.end()
		}
	}
}

// hold lets nothing more be sent of what is in flight: it could not be marked. A broker's consumers
// ignore a repeat, so only a destination that answers OneByOne needs it.
func (w *worker) hold() {
	if !w.oneByOne {
		return
	}
	for _, b := range w.inFlight.batches {
		b.lease.end()
	}
}
