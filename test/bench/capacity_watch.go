package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/forbench"
)

// measure places orders at a steady rate, and probes every second.
func (c capacity) measure(ctx context.Context, name, address string) error {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return err
	}
	defer closeAll()
	beside, err := postgres.Open(ctx, c.url, 2)
	if err != nil {
		return err
	}
	defer beside.Close()
	probe := prober{capacity: c, address: address, events: forbench.NewStore(beside)}
	if probe.orders, err = c.sampleOrders(ctx); err != nil {
		return err
	}
	for i, part := range []string{name + "_first", "", name + "_last"} {
		length := c.capacitySeconds() * 3 / 5
		if i != 1 {
			length = c.capacitySeconds() / 5
		}
		if err := c.measurePart(ctx, part, length, clients, probe); err != nil {
			return err
		}
	}
	return nil
}

// measurePart is one part of the run. A part without a name is not reported.
func (c capacity) measurePart(ctx context.Context, name string, length time.Duration, clients []client, probe prober) error {
	before, err := c.walBytes(ctx)
	if err != nil {
		return err
	}
	probe.took = samples{}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	beside, ctx := errgroup.WithContext(ctx)
	beside.Go(func() error { return probe.probeEverySecond(ctx) })
	began := time.Now()
	took, err := pace(ctx, clients, length, c.CapacityRate)
	rate := float64(len(took)) / time.Since(began).Seconds()
	stop()
	if besideErr := beside.Wait(); err == nil {
		err = besideErr
	}
	if err != nil || name == "" {
		return err
	}
	for _, t := range took {
		probe.took.add("post_ms", milliseconds(t))
	}
	for key := range probe.took {
		c.samples.add("capacity_"+name+"_"+key, probe.took.median(key))
	}
	c.samples.add("capacity_"+name+"_orders_per_s", rate)
	return c.addSizes(context.WithoutCancel(ctx), name, before, len(took))
}

// addSizes adds the sizes at the end of a part.
func (c capacity) addSizes(ctx context.Context, name string, before int64, orders int) error {
	after, err := c.walBytes(ctx)
	if err != nil {
		return err
	}
	c.samples.add("capacity_"+name+"_wal_bytes_an_order", float64(after-before)/float64(orders))
	for key, query := range map[string]string{
		"dead_rows":   "SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables",
		"tables_mib":  "SELECT sum(pg_table_size(oid))::float8 / 1048576 FROM pg_class WHERE relkind = 'r' AND relname LIKE 'outbox%'",
		"indexes_mib": "SELECT sum(pg_indexes_size(oid))::float8 / 1048576 FROM pg_class WHERE relkind = 'r' AND relname LIKE 'outbox%'",
		"partitions":  "SELECT count(*)::float8 FROM outbox_partitions",
	} {
		value, err := queryValue[float64](ctx, c.database, query)
		if err != nil {
			return err
		}
		c.samples.add("capacity_"+name+"_"+key, value)
	}
	return nil
}

func (c capacity) walBytes(ctx context.Context) (int64, error) {
	return queryValue[int64](ctx, c.database, "SELECT pg_current_wal_lsn() - pg_lsn '0/0'")
}
