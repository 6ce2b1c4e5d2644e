// Command compare injects the same faults into popular designs of an outbox and into this project,
// and counts what each of them has lost.
//
// A row is one design under one fault:
//
//	load ─► order side ×2 ─► PostgreSQL
//	            │
//	            ▼
//	        RabbitMQ ─► tap
//	            ▼
//	        consumer side ─► PostgreSQL, mail server
//
// A design of the order side has a good consumer, and a design of the consumer side has this
// project's order-service. So a row shows the failures of one design only. Both sides are real
// processes on real servers. A process that ends is started again, as Kubernetes does it.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/suite"
)

func main() {
	suite.Main("compare", printHelp, run)
}

func run(ctx context.Context) error {
	o, err := readOptions()
	if err != nil {
		return err
	}
	programs, err := build(ctx, o.rows())
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(programs.folder) }()
	book, err := openResults(filepath.Join(o.Output, "compare.json"), programs.version)
	if err != nil {
		return err
	}
	rows := book.unfinished(o)
	suite.Progress("%d rows to run, SEED=%d, %d side by side", len(rows), o.Seed, o.Lanes)
	if err := runAll(ctx, o, programs, book, rows); err != nil {
		return err
	}
	chosen := book.chosen(o)
	if err := printTables(os.Stdout, chosen); err != nil {
		return err
	}
	return verdict(os.Stderr, o.rows(), chosen)
}

// runAll runs rows, on LANES sets of servers.
func runAll(ctx context.Context, o options, p programs, book *results, rows []row) error {
	queue := make(chan row)
	lanes, laneCtx := errgroup.WithContext(ctx)
	for range min(o.Lanes, len(rows)) {
		lanes.Go(func() error { return runLane(laneCtx, p, book, queue) })
	}
	lanes.Go(func() error {
		defer close(queue)
		for _, r := range rows {
			select {
			case queue <- r:
			case <-laneCtx.Done():
				return laneCtx.Err()
			}
		}
		return nil
	})
	return lanes.Wait()
}

// runLane runs rows on its own servers.
func runLane(ctx context.Context, p programs, book *results, queue <-chan row) (err error) {
	l, err := openLane(ctx, p)
	defer func() { err = errors.Join(err, l.close()) }()
	if err != nil {
		return err
	}
	for r := range queue {
		began := time.Now()
		result, err := l.run(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil { // the row is not recorded, so the next run repeats it
			suite.Progress("%s FAILED: %v", r, err)
			err = l.restartServers(ctx)
		} else {
			err = book.add(result)
			suite.Progress("%s, %.0f s: %s", r, time.Since(began).Seconds(), result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
