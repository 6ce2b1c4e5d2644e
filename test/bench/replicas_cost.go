package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// cost is what all processes have used so far, by key.
type cost map[string]float64

// walSQL also reads how often the WAL was forced to disk. PostgreSQL 18 counts that elsewhere: then
// it is 0.
const walSQL = `
SELECT (pg_current_wal_lsn() - pg_lsn '0/0')::float8, coalesce((to_jsonb(w)->>'wal_sync')::float8, 0) FROM pg_stat_wal w`

func (r *replicated) cost(ctx context.Context, b *bench) (cost, error) {
	c := cost{}
	for group, d := range r.databases() {
		var bytes, syncs float64
		if err := d.pool.QueryRow(ctx, walSQL).Scan(&bytes, &syncs); err != nil {
			return nil, err
		}
		c["wal_bytes_"+group], c["wal_syncs_"+group] = bytes, syncs
	}
	written, err := writtenTo(b.folder)
	if err != nil {
		return nil, err
	}
	c["disk_bytes"] = written
	used, err := cpuByGroup(r.groups)
	for group, seconds := range used {
		c["cpu_us_"+group] = seconds * 1e6
	}
	return c, err
}

// add adds the difference to the cost before, for each order.
func (c cost) add(s samples, key string, before cost, orders float64) {
	for what, value := range c {
		s.add(key+"_"+what, (value-before[what])/orders)
	}
}

// replicasAt adds what an order costs at this rate. What a process does also without orders is part
// of it, so an order costs less at a higher rate.
func (b *bench) replicasAt(ctx context.Context, r *replicated, rate int) error {
	before, err := r.cost(ctx, b)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.place(ctx, b.replicasSeconds(), rate); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	after, err := r.cost(ctx, b)
	if err != nil {
		return err
	}
	placed, key := float64(b.ReplicasTime*rate), fmt.Sprintf("%s_at_%d", r.name, rate)
	b.samples.add(key+"_orders_per_s", placed/took)
	after.add(b.samples, key, before, placed)
	return nil
}

// addCheckpoint adds the bytes that a checkpoint writes for each order since the one before. Until
// then, only the WAL is written.
func (b *bench) addCheckpoint(ctx context.Context, r *replicated, placed int) error {
	before, err := writtenTo(b.folder)
	if err != nil {
		return err
	}
	for _, d := range r.databases() {
		if _, err := d.pool.Exec(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	after, err := writtenTo(b.folder)
	b.samples.add(r.name+"_checkpoint_disk_bytes", (after-before)/float64(placed))
	return err
}

// addConnections adds the connections of the services: to their databases, and to the broker.
func (b *bench) addConnections(ctx context.Context, r *replicated) error {
	for group, d := range r.databases() {
		n, err := queryValue[int](ctx, d, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
		if err != nil {
			return err
		}
		b.samples.add(r.name+"_connections_"+group, float64(n-int(d.pool.Stat().TotalConns())))
	}
	vhost := r.orders.broker[strings.LastIndex(r.orders.broker, "/")+1:]
	listed, err := b.broker.Ctl(ctx, "list_connections", "vhost")
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(listed) {
		if strings.TrimSpace(line) == vhost {
			n++
		}
	}
	b.samples.add(r.name+"_connections_broker", float64(n))
	return nil
}
