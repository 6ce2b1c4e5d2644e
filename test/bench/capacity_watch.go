package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/servicelog"
)

// measure places orders at a steady rate, and probes every second.
func (c capacity) measure(ctx context.Context, name string, s service) error {
	api, err := s.logged(ctx, servicelog.TakingOrders)
	if err != nil {
		return err
	}
	ops, err := s.logged(ctx, servicelog.AnsweringOperators)
	if err != nil {
		return err
	}
	clients, closeAll, err := dialAll(ctx, api.Address)
	if err != nil {
		return err
	}
	defer closeAll()
	probe := prober{capacity: c, address: api.Address, ops: ops.Address}
	if probe.orders, err = c.sampleOrders(ctx); err != nil {
		return err
	}
	for i, part := range []string{"first", "middle", "last"} {
		length := c.length * 3 / 5
		if i != 1 {
			length = c.length / 5
		}
		if err := c.measurePart(ctx, name+"_"+part, length, clients, probe); err != nil {
			return err
		}
		progress("capacity: the %s part of %s is measured", part, name)
	}
	return nil
}

func (c capacity) measurePart(ctx context.Context, name string, length time.Duration, clients []client, probe prober) error {
	before, err := c.readTotals(ctx)
	if err != nil {
		return err
	}
	probe.took = samples{}
	metrics, err := probe.metrics(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	beside, ctx := errgroup.WithContext(ctx)
	beside.Go(func() error { return probe.probeEverySecond(ctx) })
	beside.Go(func() error { return c.addEvents(ctx) })
	began := time.Now()
	took, err := pace(ctx, clients, length, c.CapacityRate)
	passed := time.Since(began).Seconds()
	stop()
	if besideErr := beside.Wait(); err == nil {
		err = besideErr
	}
	if err = errors.Join(err, probe.addRelay(context.WithoutCancel(ctx), metrics)); err != nil {
		return err
	}
	for _, t := range took {
		probe.took.add("post_ms", milliseconds(t))
	}
	for key := range probe.took {
		c.samples.add("capacity_"+name+"_"+key, probe.took.median(key))
	}
	slices.Sort(took)
	c.samples.add("capacity_"+name+"_post_p99_ms", milliseconds(took[len(took)*99/100]))
	c.samples.add("capacity_"+name+"_orders_per_s", float64(len(took))/passed)
	return c.addSizes(context.WithoutCancel(ctx), name, before, passed)
}

// addEvents adds events, as the log of a busier service has. It stops when ctx ends.
func (c capacity) addEvents(ctx context.Context) error {
	const perSecond = 20
	if c.CapacityAdded == 0 {
		return nil
	}
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-tick.C:
			if err := c.fill(ctx, max(c.CapacityAdded/perSecond, 1), at.String()); err != nil && ctx.Err() == nil {
				return fmt.Errorf("adding events: %w", err)
			}
		}
	}
}

// totals grow for as long as a database exists.
type totals struct{ WALBytes, Events int64 }

func (c capacity) readTotals(ctx context.Context) (totals, error) {
	rows, _ := c.pool.Query(ctx, "SELECT (pg_current_wal_lsn() - pg_lsn '0/0')::bigint AS wal_bytes, last_value AS events FROM outbox_events_seq_seq") // CollectExactlyOneRow returns the error
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[totals])
}

// addSizes adds the sizes at the end of a part.
func (c capacity) addSizes(ctx context.Context, name string, before totals, seconds float64) error {
	after, err := c.readTotals(ctx)
	if err != nil {
		return err
	}
	events := float64(after.Events - before.Events)
	c.samples.add("capacity_"+name+"_events_per_s", events/seconds)
	c.samples.add("capacity_"+name+"_wal_bytes_an_event", float64(after.WALBytes-before.WALBytes)/events)
	for key, query := range map[string]string{
		"backlog":     "SELECT count(*)::float8 FROM outbox_queue",
		"dead_rows":   "SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables",
		"tables_mib":  "SELECT sum(pg_table_size(oid))::float8 / 1048576 FROM pg_class WHERE relkind = 'r' AND relname LIKE 'outbox%'",
		"indexes_mib": "SELECT sum(pg_indexes_size(oid))::float8 / 1048576 FROM pg_class WHERE relkind = 'r' AND relname LIKE 'outbox%'",
		"slot":        "SELECT current::float8 FROM outbox_ring",
	} {
		value, err := queryValue[float64](ctx, c.database, query)
		if err != nil {
			return err
		}
		c.samples.add("capacity_"+name+"_"+key, value)
	}
	return nil
}
