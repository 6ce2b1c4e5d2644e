package main

import (
	"context"
	"slices"
	"time"
)

// measureOutage places orders at a steady rate, first with the broker and then without it.
func (b *bench) measureOutage(ctx context.Context) error {
	for run := range b.Runs {
		progress("away, run %d of %d: %d s with the broker, %d s without", run+1, b.Runs, b.LatencySeconds, b.LatencySeconds)
		if err := b.withService(ctx, b.outageRun); err != nil {
			return err
		}
	}
	b.samples.add("post_p99_away_ratio", b.samples.median("post_away_ms_p99")/b.samples.median("post_ms_p99"))
	return nil
}

func (b *bench) outageRun(ctx context.Context, d database, address string) error {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return err
	}
	defer closeAll()
	if _, err := pace(ctx, clients, warmUp, ordersPerSecond); err != nil {
		return err
	}
	if err := b.addPostLatency(ctx, "post_ms_p99", clients); err != nil {
		return err
	}
	if err := b.broker.Stop(ctx); err != nil {
		return err
	}
	if err := b.addPostLatency(ctx, "post_away_ms_p99", clients); err != nil {
		return err
	}
	if err := b.broker.Start(ctx); err != nil {
		return err
	}
	return d.awaitPublished(ctx)
}

func (b *bench) addPostLatency(ctx context.Context, key string, clients []client) error {
	took, err := pace(ctx, clients, b.latencySeconds(), ordersPerSecond)
	if err != nil {
		return err
	}
	slices.Sort(took)
	b.samples.add(key, float64(took[len(took)*99/100])/float64(time.Millisecond))
	return nil
}
