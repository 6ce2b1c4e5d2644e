package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servicelog"
)

// connections is the number of clients of the API, and of connections of bare pgx.
const connections = 16

// measurePost places orders at full speed, with the relay in the same process. For comparison, bare
// pgx executes the statements of an order.
func (b *bench) measurePost(ctx context.Context) error {
	for run := range b.Runs {
		progress("post, run %d of %d: %d s over HTTP, %d s by bare pgx", run+1, b.Runs, b.Seconds, b.Seconds)
		if err := b.withService(ctx, b.postRun); err != nil {
			return err
		}
		if err := b.barePostRun(ctx); err != nil {
			return err
		}
	}
	b.samples.add("post_ratio", b.samples.median("post_per_s")/b.samples.median("bare_pgx_per_s"))
	return nil
}

// withService runs API and relay in one process, with a new database and virtual host.
func (b *bench) withService(ctx context.Context, use func(ctx context.Context, d database, address string) error) error {
	return b.withServers(ctx, func(ctx context.Context, d database) error {
		return b.withAPI(ctx, d, "serve", use)
	})
}

// withServers makes a database and a virtual host with one queue for all events.
func (b *bench) withServers(ctx context.Context, use func(ctx context.Context, d database) error) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		err := inSession(ctx, d.broker, func(s *rabbitmq.Session) error { return s.Declare(boundQueue()) })
		if err != nil {
			return err
		}
		return use(ctx, d)
	})
}

// withAPI runs a command of order-service that serves the API.
func (b *bench) withAPI(ctx context.Context, d database, command string, use func(ctx context.Context, d database, address string) error, settings ...string) error {
	s, err := b.serve(ctx, orderService, command, d, d.broker, settings...)
	if err != nil {
		return err
	}
	defer s.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	listening, err := s.logged(ctx, servicelog.TakingOrders)
	if err != nil {
		return err
	}
	return use(ctx, d, listening.Address)
}

func (b *bench) postRun(ctx context.Context, d database, address string) error {
	perSecond, err := placeFor(ctx, address, b.seconds())
	if err != nil {
		return err
	}
	backlog, err := queryValue[int](ctx, d, unpublished)
	if err != nil {
		return err
	}
	b.samples.add("post_per_s", perSecond)
	b.samples.add("sustained_backlog_events", float64(backlog))
	b.samples.add("sustained_backlog_s", float64(backlog)/perSecond)
	return nil
}

// placeFor places orders over all connections at full speed, and returns the orders per second.
func placeFor(ctx context.Context, address string, length time.Duration) (float64, error) {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return 0, err
	}
	defer closeAll()
	work := make([]func(context.Context) error, 0, connections)
	for _, c := range clients {
		work = append(work, c.place)
	}
	return repeat(ctx, length, work)
}

// repeat runs each function in a loop, all concurrently, and returns the calls per second.
func repeat(ctx context.Context, length time.Duration, work []func(context.Context) error) (float64, error) {
	all, ctx := errgroup.WithContext(ctx)
	done := make([]int, len(work))
	began := time.Now()
	for i, do := range work {
		all.Go(func() error {
			for time.Since(began) < length {
				if err := do(ctx); err != nil {
					return err
				}
				done[i]++
			}
			return nil
		})
	}
	err := all.Wait()
	sum := 0
	for _, n := range done {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds(), err
}
