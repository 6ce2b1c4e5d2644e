package main

import (
	"context"

	"example.com/transactional-outbox/test/servicelog"
)

// splitTurns is how often each of the two APIs is measured in one run.
const splitTurns = 5

// measureSplit runs API and relay as separate processes. The relay learns of an order by a
// notification or by its poll.
func (b *bench) measureSplit(ctx context.Context) error {
	for run := range b.Runs {
		progress("split, run %d of %d: %d s at %d orders per second, %d s of POST with notifications and as many without",
			run+1, b.Runs, b.LatencySeconds, ordersPerSecond, b.Seconds)
		if err := b.withServers(ctx, b.splitRun); err != nil {
			return err
		}
		if err := b.withServers(ctx, b.notifyingRun); err != nil {
			return err
		}
	}
	b.samples.add("post_notify_ratio", b.samples.median("post_notify_per_s")/b.samples.median("post_silent_per_s"))
	return nil
}

func (b *bench) splitRun(ctx context.Context, d database) error {
	return b.withRelay(ctx, d, func(ctx context.Context) error {
		return b.withAPI(ctx, d, "api", func(ctx context.Context, d database, api string) error {
			if err := b.addCommitToPublish(ctx, d, api, "commit_to_publish_split_ms"); err != nil {
				return err
			}
			return d.awaitPublished(ctx)
		})
	})
}

// notifyingRun has a relay that polls all the time, so it is busy with and without notifications.
// The comparison shows only the cost of sending notifications.
func (b *bench) notifyingRun(ctx context.Context, d database) error {
	return b.withRelay(ctx, d, func(ctx context.Context) error {
		return b.withAPI(ctx, d, "api", func(ctx context.Context, d database, notifies string) error {
			return b.withAPI(ctx, d, "api", func(ctx context.Context, d database, silent string) error {
				return b.compareNotifying(ctx, d, notifies, silent)
			}, "OUTBOX_NOTIFY=false")
		})
	}, "RELAY_POLL_INTERVAL=10ms")
}

// withRelay runs a relay that listens for notifications.
func (b *bench) withRelay(ctx context.Context, d database, use func(ctx context.Context) error, settings ...string) error {
	relay, err := b.serve(ctx, orderService, "relay", d, d.broker, settings...)
	if err != nil {
		return err
	}
	defer relay.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	if _, err := relay.logged(ctx, servicelog.Listening); err != nil {
		return err
	}
	return use(ctx)
}

// compareNotifying measures the two APIs in turn. After each turn it waits until all events are
// published.
func (b *bench) compareNotifying(ctx context.Context, d database, notifies, silent string) error {
	for range splitTurns {
		for _, api := range []struct{ key, address string }{{"post_notify_per_s", notifies}, {"post_silent_per_s", silent}} {
			perSecond, err := placeFor(ctx, api.address, b.seconds()/splitTurns)
			if err != nil {
				return err
			}
			b.samples.add(api.key, perSecond)
			if err := d.awaitPublished(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
