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

// measureLatency places orders at a steady rate. It waits for an answer only if all connections are
// busy.
func (b *bench) measureLatency(ctx context.Context) error {
	for run := range b.Runs {
		progress("latency, run %d of %d: %d s at %d orders per second", run+1, b.Runs, b.LatencySeconds, ordersPerSecond)
		if err := b.withService(ctx, b.latencyRun); err != nil {
			return err
		}
	}
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
	return b.addCommitToPublish(ctx, d, address, "commit_to_publish_ms")
}

// addCommitToPublish places orders, and adds two percentiles. Their keys begin with figure.
func (b *bench) addCommitToPublish(ctx context.Context, d database, address, figure string) error {
	warm, err := b.placeAtPace(ctx, d, address)
	if err != nil {
		return err
	}
	if err := d.awaitPublished(ctx); err != nil {
		return err
	}
	for percentile, share := range map[string]float64{"_p50": 0.50, "_p99": 0.99} {
		value, err := queryValue[float64](ctx, d, latencySQL, warm, share)
		if err != nil {
			return err
		}
		b.samples.add(figure+percentile, value)
	}
	return nil
}

// placeAtPace returns the time at the end of the warm-up.
func (b *bench) placeAtPace(ctx context.Context, d database, address string) (warm time.Time, err error) {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return warm, err
	}
	defer closeAll()
	if _, err := pace(ctx, clients, warmUp, ordersPerSecond); err != nil {
		return warm, err
	}
	if warm, err = queryValue[time.Time](ctx, d, "SELECT now()"); err != nil {
		return warm, err
	}
	_, err = pace(ctx, clients, b.latencySeconds(), ordersPerSecond)
	return warm, err
}

// pace places an order at each tick, over the connection that has been free longest, and returns
// the duration of each request. It places fewer orders if the service is too slow for the pace.
func pace(ctx context.Context, clients []client, length time.Duration, perSecond int) ([]time.Duration, error) {
	free := make(chan client, len(clients))
	for _, c := range clients {
		free <- c
	}
	took := make([]time.Duration, int(length.Seconds())*perSecond)
	all, ctx := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
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
