package relay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"example.com/transactional-outbox/outbox/internal/quietlog"
	"example.com/transactional-outbox/outbox/internal/store"
)

// database executes the statements of a worker and its batches, one at a time: so a worker uses one
// connection of the pool, and another one for its renewals.
type database struct {
	config   *Config
	store    Store
	log      *quietlog.Log
	health   *health
	counters *counters
	caution  *caution
	leases   *leases
	by       deadlines
	turn     chan struct{} // has room for the one that executes

	mu       sync.Mutex
	failures int       // one after the other
	retryAt  time.Time // after a failure: nothing is executed before
}

// statementTimeout bounds the first attempt. Each further attempt has more time, up to 15 s, so
// that a database that is only slow can finish one of them. Once ShutdownTimeout is over, a
// statement has lastStatementTimeout.
const (
	statementTimeout     = 5 * time.Second
	lastStatementTimeout = 2 * time.Second // of which the end of the publisher may take three quarters
)

// The pauses after a failure of the database. After its restart, each connection of the pool fails
// once.
const (
	firstRetryPause = 50 * time.Millisecond
	lastRetryPause  = time.Second
)

// errNotNow is the error of a statement that is not to be executed after all.
var errNotNow = errors.New("not now")

// notBefore is when the next statement may be executed.
func (d *database) notBefore() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.retryAt
}

// execute executes a statement. It begins none when ctx has ended, and ends one when until ends. It
// reports whether the statement has succeeded.
func (d *database) execute(ctx, until context.Context, trouble string, statement func(context.Context) error) bool {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
	}
	mustWait := time.Now().Before(d.notBefore()) && d.by.answers.Err() == nil
	return ctx.Err() == nil && !mustWait && d.attempt(until, trouble, statement)
}

func (d *database) attempt(until context.Context, trouble string, statement func(context.Context) error) bool {
	limited, cancel := context.WithTimeout(until, time.Duration(min(d.failures+1, 3))*statementTimeout)
	defer cancel()
	err := statement(limited)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(err, errNotNow):
		return false
	case err == nil:
		d.caution.succeeded(d.failures > 0)
		d.failures, d.retryAt = 0, time.Time{}
		d.health.database.Store(nil)
		return true
	}
	d.retryAt = time.Now().Add(min(firstRetryPause<<min(d.failures, 10), lastRetryPause))
	d.failures++
	d.health.database.Store(&err)
	d.log.Trouble(until, trouble, "error", err)
	if d.caution.isOn.Load() {
		d.leases.endAll()
	}
	return false
}

// settle writes what was decided about a batch, or late confirms. It returns nil if it has failed.
// Then the same is written again later.
func (d *database) settle(s store.Settlement) *store.Settled {
	var done store.Settled
	s.Durable = d.config.DurableMarks
	var took time.Duration
	ok := d.execute(d.by.statements, d.by.statements, "cannot record what was decided, trying again", func(ctx context.Context) (err error) {
		began := time.Now()
		done, err = d.store.Settle(ctx, s)
		took = time.Since(began)
		return err
	})
	if !ok {
		return nil
	}
	d.counters.count(func(all *Counters) {
		if len(s.Published) > 0 {
			all.Marks.add(took)
		}
		for _, failure := range s.Failures {
			if _, failed := done.Failed[failure.ID]; (failure.Counts || failure.Code == store.CodeNoAnswer) && !failed {
				all.Retries++
			}
		}
	})
	if d.config.OnPublished != nil && len(s.Published) > 0 {
		d.config.OnPublished(d.by.statements, s.Published)
	}
	return &done
}

// caution keeps a relay from sending what it may be unable to mark, if the destination answers one
// by one: there each repeat is one more e-mail. The consumers of a broker ignore a repeat.
type caution struct {
	isOn  atomic.Bool
	stuck atomic.Int64              // batches with decisions that could not be recorded
	until atomic.Pointer[time.Time] // no claim before
}

// recoveryPause is how long nothing is claimed after a failure of the database, so that all can
// mark what they have sent. Their leases may have ended.
const recoveryPause = 2 * time.Second

func (c *caution) succeeded(afterFailures bool) {
	if afterFailures {
		until := time.Now().Add(recoveryPause)
		c.until.Store(&until)
	}
}

func (c *caution) setStuck(is bool) { c.stuck.Add(map[bool]int64{true: 1, false: -1}[is]) }

// notBefore is when events may be claimed.
func (c *caution) notBefore(now time.Time) time.Time {
	until := c.until.Load()
	switch {
	case c.isOn.Load() && c.stuck.Load() > 0:
		return now.Add(firstRetryPause)
	case c.isOn.Load() && until != nil:
		return later(now, *until)
	}
	return now
}
