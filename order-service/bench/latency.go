package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	ordersPerSecond = 200
	warmUp          = 2 * time.Second
)

// measureLatency takes orders at a steady pace, whether the earlier ones are answered
// or not, as long as a connection is free.
func (b *bench) measureLatency(ctx context.Context) error {
	for run := range b.Runs {
		progress("latency, run %d of %d: %d s at %d orders per second", run+1, b.Runs, b.LatencySeconds, ordersPerSecond)
		if err := b.withService(ctx, b.latencyRun); err != nil {
			return err
		}
	}
	return nil
}

// latencySQL counts from the commit of the order's row, which nothing has changed
// since.
const latencySQL = `
SELECT percentile_cont($2::float8) WITHIN GROUP (
  ORDER BY extract(epoch FROM e.published_at - pg_xact_commit_timestamp(o.xmin))::float8 * 1000)
FROM orders o JOIN outbox_events e ON e.aggregate_id = o.id
WHERE o.created_at >= $1`

func (b *bench) latencyRun(ctx context.Context, d database, address string) error {
	warm, err := b.placeAtPace(ctx, d, address)
	if err != nil {
		return err
	}
	if err := d.awaitPublished(ctx); err != nil {
		return err
	}
	for key, share := range map[string]float64{"commit_to_publish_ms_p50": 0.50, "commit_to_publish_ms_p99": 0.99} {
		milliseconds, err := one[float64](ctx, d, latencySQL, warm, share)
		if err != nil {
			return err
		}
		b.samples.add(key, milliseconds)
	}
	return nil
}

// placeAtPace returns since when it counts.
func (b *bench) placeAtPace(ctx context.Context, d database, address string) (warm time.Time, err error) {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return warm, err
	}
	defer closeAll()
	if _, err := pace(ctx, clients, warmUp); err != nil {
		return warm, err
	}
	if warm, err = one[time.Time](ctx, d, "SELECT now()"); err != nil {
		return warm, err
	}
	_, err = pace(ctx, clients, b.latencySeconds())
	return warm, err
}

// pace places an order at each tick, over the connection that has been free longest,
// and returns how long each one took.
func pace(ctx context.Context, clients []client, length time.Duration) ([]time.Duration, error) {
	free := make(chan client, len(clients))
	for _, c := range clients {
		free <- c
	}
	took := make([]time.Duration, int(length.Seconds()*ordersPerSecond))
	all, ctx := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / ordersPerSecond)
	defer tick.Stop()
	for i := range took {
		<-tick.C
		c := <-free
		all.Go(func() error {
			defer func() { free <- c }()
			began := time.Now()
			err := c.place(ctx)
			took[i] = time.Since(began)
			return err
		})
		if ctx.Err() != nil {
			break
		}
	}
	return took, all.Wait()
}
