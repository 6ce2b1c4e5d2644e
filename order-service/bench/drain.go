package main

import (
	"context"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// measureDrain publishes a backlog without a relay, and then lets a relay do it.
func (b *bench) measureDrain(ctx context.Context) error {
	for run := range b.Runs {
		progress("drain, run %d of %d: %d events", run+1, b.Runs, b.Events)
		if err := b.drainRun(ctx); err != nil {
			return err
		}
	}
	best := 0.0
	for _, way := range publishings {
		best = max(best, b.samples.median(way.key()))
	}
	b.samples.add("raw_publish_per_s", best)
	b.samples.add("relay_drain_ratio", b.samples.median("relay_drain_per_s")/best)
	return nil
}

func (b *bench) drainRun(ctx context.Context) error {
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
	if err := d.fill(ctx, b.Events, "drain", "pending"); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	if err := b.publishRaw(ctx, d, url); err != nil {
		return err
	}
	return b.drainBacklog(ctx, d, url)
}

// drainBacklog counts the time from the relay's connection to the broker on: how long
// a process takes to start is another question.
func (b *bench) drainBacklog(ctx context.Context, d database, url string) error {
	err := inSession(ctx, url, func(s *rabbitmq.Session) error { return s.Declare(boundQueue(exchange)) })
	if err != nil {
		return err
	}
	relay, err := b.serve(ctx, orderService, "relay", d, url)
	if err != nil {
		return err
	}
	defer relay.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
	if err := d.awaitPublished(ctx); err != nil {
		return err
	}
	return b.addRun(ctx, relay, "connected to the broker", b.Events, "relay_drain_per_s", "relay_rss_mib")
}

// addRun adds what a service has done by now, for each second since a line of its log,
// and how much memory it has.
func (b *bench) addRun(ctx context.Context, s service, since string, done int, rate, rss string) error {
	ended := time.Now()
	began, err := s.logged(ctx, since)
	if err != nil {
		return err
	}
	resident, err := s.residentMiB(ctx)
	if err != nil {
		return err
	}
	b.samples.add(rate, float64(done)/ended.Sub(began.Time).Seconds())
	b.samples.add(rss, resident)
	return nil
}

// leftSQL asks by the index, from its end: a scan of the table would cost more with
// each event that is published.
const leftSQL = `
SELECT EXISTS (SELECT FROM (
  SELECT 1 FROM outbox_events WHERE status IN ('pending', 'in_progress') ORDER BY available_at DESC, seq DESC LIMIT 1) last)`

// awaitPublished returns when nothing is left to publish.
func (d database) awaitPublished(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if left, err := one[bool](ctx, d, leftSQL); err != nil || !left {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
