package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/suite"
)

const (
	ordersPerSecond = 200
	warmUp          = 2 * time.Second
)

// measureLatency places orders at a steady rate, first with the broker and then without it.
func (b *bench) measureLatency(ctx context.Context) error {
	for run := range b.Runs {
		suite.Progress("latency, run %d of %d: %d s at %d orders per second, %d s without the broker",
			run+1, b.Runs, b.LatencySeconds, ordersPerSecond, b.LatencySeconds)
		if err := b.withService(ctx, b.latencyRun); err != nil {
			return err
		}
	}
	b.addRatio("post_p99_away_ratio", "post_away_ms_p99", "post_ms_p99")
	return nil
}

// latencySQL measures from the commit of the order. xmin is that commit's transaction, because no
// later one has updated the row.
const latencySQL = `
SELECT percentile_cont($2::float8) WITHIN GROUP (
  ORDER BY extract(epoch FROM p.published_at - pg_xact_commit_timestamp(o.xmin))::float8 * 1000)
FROM orders o JOIN outbox_events e ON e.aggregate = 'order' AND e.aggregate_id = o.id::text JOIN outbox_published p ON p.id = e.id
WHERE o.created_at >= $1`

func (b *bench) latencyRun(ctx context.Context, d database, address string) error {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return err
	}
	defer closeAll()
	if _, err := pace(ctx, clients, warmUp); err != nil {
		return err
	}
	warm, err := queryValue[time.Time](ctx, d, "SELECT now()")
	if err != nil {
		return err
	}
	if err := b.addPostLatency(ctx, "post_ms_p99", clients); err != nil {
		return err
	}
	if err := d.awaitPublished(ctx); err != nil {
		return err
	}
	for key, share := range map[string]float64{"commit_to_publish_ms_p50": 0.50, "commit_to_publish_ms_p99": 0.99} {
		value, err := queryValue[float64](ctx, d, latencySQL, warm, share)
		if err != nil {
			return err
		}
		b.samples.add(key, value)
	}
	if err := b.Broker.Stop(ctx); err != nil {
		return err
	}
	err = b.addPostLatency(ctx, "post_away_ms_p99", clients)
	if err := errors.Join(err, b.Broker.Start(ctx)); err != nil {
		return err
	}
	return d.awaitPublished(ctx)
}

func (b *bench) addPostLatency(ctx context.Context, key string, clients []client) error {
	took, err := pace(ctx, clients, seconds(b.LatencySeconds))
	if err != nil {
		return err
	}
	slices.Sort(took)
	b.samples.add(key, float64(took[len(took)*99/100])/float64(time.Millisecond))
	return nil
}

// pace places an order at each tick, over the connection that has been free longest, and returns
// the duration of each request. It waits for an answer only if all connections are busy. So it
// places fewer orders if the service is too slow for the pace.
func pace(ctx context.Context, clients []client, length time.Duration) ([]time.Duration, error) {
	free := make(chan client, len(clients))
	for _, c := range clients {
		free <- c
	}
	took := make([]time.Duration, int(length.Seconds())*ordersPerSecond)
	all, ctx := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / ordersPerSecond)
	defer tick.Stop()
	began := time.Now()
	for i := range took {
		<-tick.C
		if time.Since(began) > length {
			took = took[:i]
			break
		}
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
