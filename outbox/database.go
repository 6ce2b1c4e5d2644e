package outbox

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// renewEvery is how often the leases of what is in flight are renewed.
const renewEvery = time.Second

// renew makes the leases of what is in hand longer.
func (w *worker) renew(ctx context.Context) {
	if now := time.Now(); w.inFlight.empty() || now.Sub(w.renewed) < renewEvery || now.Before(w.retryAt) {
		return
	}
	w.renewed = time.Now()
	var held []uuid.UUID
	ok := w.execute(ctx, "cannot renew leases", func(ctx context.Context) (err error) {
		held, err = w.events.Renew(ctx, w.inFlight.tokens(), w.config.Lease)
		return err
	})
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

// recoveryPause is how long a worker claims nothing after a failure of the database, so that others
// can mark what they have sent. Their leases may have ended meanwhile.
const recoveryPause = 2 * time.Second

// hold lets nothing more be sent of what is in hand: it could not be marked. A broker's consumers
// ignore a repeat, so only a destination that answers OneByOne needs it.
func (w *worker) hold() {
	if !w.oneByOne {
		return
	}
	for _, b := range w.inFlight.batches {
		b.lease.end()
	}
}

// statementTimeout bounds the first attempt. Each further attempt has more time, up to 15 s, so that
// a database that is only slow can finish one of them. Once ShutdownTimeout is over, a statement has
// lastStatementTimeout.
const (
	statementTimeout     = 5 * time.Second
	lastStatementTimeout = time.Second
)

// The pauses after a failure of the database. After its restart, each connection of the pool fails
// once.
const (
	firstRetryPause = 50 * time.Millisecond
	lastRetryPause  = time.Second
)

// execute executes a statement, also if ctx has ended: otherwise a claim that is committed would
// wait for the end of its lease. It reports whether the statement has succeeded.
func (w *worker) execute(ctx context.Context, trouble string, statement func(context.Context) error) bool {
	w.failures++ // set back below if it succeeds
	limited, cancel := context.WithTimeout(w.lastCall, time.Duration(min(w.failures, 3))*statementTimeout)
	defer cancel()
	if err := statement(limited); err != nil { //nolint:contextcheck // a claim that is committed must not be lost
		w.retryAt = time.Now().Add(min(firstRetryPause<<min(w.failures-1, 10), lastRetryPause))
		w.state.database.Store(&err)
		w.log.trouble(ctx, trouble, "error", err)
		w.hold()
		return false
	}
	if w.failures > 1 && w.oneByOne {
		w.notBefore = time.Now().Add(recoveryPause)
	}
	w.failures, w.retryAt = 0, time.Time{}
	w.state.database.Store(nil)
	return true
}
