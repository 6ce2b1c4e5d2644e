package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// connections is how many clients there are, of the API and of bare pgx.
const connections = 16

// measurePost takes orders at full speed, with the relay in the same process, and
// then lets bare pgx execute what those orders do to the database.
func (b *bench) measurePost(ctx context.Context) error {
	for run := range b.Runs {
		progress("post, run %d of %d: %d s over HTTP, %d s by bare pgx", run+1, b.Runs, b.Seconds, b.Seconds)
		if err := b.withService(ctx, b.postRun); err != nil {
			return err
		}
		if err := b.pgxRun(ctx); err != nil {
			return err
		}
	}
	b.samples.add("post_ratio", b.samples.median("post_per_s")/b.samples.median("bare_pgx_per_s"))
	return nil
}

// withService runs the whole order-service on a database and a broker of its own.
func (b *bench) withService(ctx context.Context, use func(ctx context.Context, d database, address string) error) error {
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop()
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	err = inSession(ctx, url, func(s *rabbitmq.Session) error { return s.Declare(boundQueue(exchange)) })
	if err != nil {
		return err
	}
	s, err := b.serve(ctx, orderService, "serve", d, url)
	if err != nil {
		return err
	}
	defer s.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
	listening, err := s.logged(ctx, "taking orders")
	if err != nil {
		return err
	}
	d.broker = url
	return use(ctx, d, listening.Address)
}

func (b *bench) postRun(ctx context.Context, d database, address string) error {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return err
	}
	defer closeAll()
	work := make([]func(context.Context) error, 0, connections)
	for _, c := range clients {
		work = append(work, c.place)
	}
	perSecond, err := repeat(ctx, b.seconds(), work)
	if err != nil {
		return err
	}
	backlog, err := one[int](ctx, d, unpublished)
	if err != nil {
		return err
	}
	b.samples.add("post_per_s", perSecond)
	b.samples.add("sustained_backlog_events", float64(backlog))
	b.samples.add("sustained_backlog_s", float64(backlog)/perSecond)
	return nil
}

// repeat does each piece of work again and again, all side by side, and returns how
// many a second were done.
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
