package main

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/compare/judge"
)

// longest limits the wait for a row in which something always moves.
const longest = 2 * time.Minute

// awaitFinished waits until no event is missing, or nothing moves any more. It returns the time of
// the last change. It asks the broker only when the answer matters, because that takes work away
// from the design.
func (sys *system) awaitFinished(ctx context.Context) (last time.Time, err error) {
	before := -1
	for began := time.Now(); time.Since(began) < longest; {
		e, err := sys.readDatabases(ctx)
		if err != nil {
			return last, err
		}
		missing := judge.Missing(e)
		if missing != before {
			last = time.Now()
		}
		before = missing
		if quiet := time.Since(last); missing == 0 || quiet > sys.design.patience/3 {
			queued, err := sys.broker.Ready(ctx, workQueues...)
			// In a design of the order side, what is missing is then in no outbox and in no queue.
			gone := missing == 0 || len(e.Waiting) == 0 && sys.design.side == orderSide
			if err != nil || gone && queued == 0 || quiet > sys.design.patience {
				return last, err
			}
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return last, err
		}
	}
	return last, nil
}

// stop stops all processes.
func (sys *system) stop(ctx context.Context) error {
	var stopping errgroup.Group
	for _, p := range sys.programs() {
		stopping.Go(func() error { return p.end(ctx, syscall.SIGTERM, 10*time.Second) })
	}
	return stopping.Wait()
}

func (sys *system) result(ctx context.Context, ended, finished time.Time) (r result, err error) {
	sys.closers[len(sys.closers)-1]() // no process is started again
	if err := sys.stop(ctx); err != nil {
		return r, err
	}
	e, err := sys.evidence(ctx)
	return result{judge.Judge(e), finished.Sub(ended).Seconds()}, err
}
