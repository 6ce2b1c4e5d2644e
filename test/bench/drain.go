package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servicelog"
)

// measureDrain publishes a backlog without a relay, and then with a relay.
func (b *bench) measureDrain(ctx context.Context) error {
	if b.Peers {
		if err := b.buildPeers(ctx); err != nil {
			return err
		}
	}
	for run := range b.Runs {
		progress("drain, run %d of %d: %d events", run+1, b.Runs, b.Events)
		if err := b.drainRun(ctx); err != nil {
			return err
		}
		if b.Peers {
			if err := b.drainPeers(ctx); err != nil {
				return err
			}
		}
	}
	best := 0.0
	for _, way := range publishings {
		best = max(best, b.samples.median(way.key()))
	}
	b.samples.add("raw_publish_per_s", best)
	b.samples.add("relay_drain_ratio", b.samples.median("relay_drain_per_s")/best)
	if b.Peers {
		b.addPeerRatios(best)
	}
	return nil
}

func (b *bench) drainRun(ctx context.Context) error {
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop()
	if err := d.fill(ctx, b.Events, "drain"); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	if err := b.publishRaw(ctx, d); err != nil {
		return err
	}
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	return b.drainBacklog(ctx, d, url)
}

// drainBacklog measures from the relay's connection to the broker on, without the start of the
// process.
func (b *bench) drainBacklog(ctx context.Context, d database, url string) error {
	err := inSession(ctx, url, func(s *rabbitmq.Session) error { return s.Declare(boundQueue()) })
	if err != nil {
		return err
	}
	relay, err := b.serve(ctx, orderService, "relay", d, url)
	if err != nil {
		return err
	}
	defer relay.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	before := usedCPU()
	if err := d.awaitPublished(ctx); err != nil {
		return err
	}
	b.addCPU("relay_drain_cpu_us", before, b.Events)
	return b.addRun(ctx, relay, servicelog.ConnectedToBroker, b.Events, "relay_drain_per_s", "relay_rss_mib")
}

// addRun adds the rate of a service since a line in its log, and its resident memory.
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

// lastSQL looks up one row: the newest event. leftSQL looks at all, also at the rows that are
// deleted but not yet vacuumed.
const (
	newestSQL = `SELECT id::text FROM outbox_queue ORDER BY seq DESC LIMIT 1`
	lastSQL   = `SELECT EXISTS (SELECT FROM outbox_queue WHERE id = $1)`
	leftSQL   = `SELECT EXISTS (SELECT FROM outbox_queue)`
)

// awaitPublished returns when nothing is left to publish. It waits for the newest event first,
// because looking at the whole queue again and again would slow down what is measured.
func (d database) awaitPublished(ctx context.Context) error {
	newest, err := queryValue[string](ctx, d, newestSQL)
	if err == nil {
		err = d.awaitFalse(ctx, lastSQL, newest)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return d.awaitFalse(ctx, leftSQL)
}

// awaitFalse returns when the query returns false.
func (d database) awaitFalse(ctx context.Context, query string, args ...any) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if left, err := queryValue[bool](ctx, d, query, args...); err != nil || !left {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
