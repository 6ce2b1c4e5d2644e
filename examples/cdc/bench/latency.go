package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

const perSecond = 200

// latencySQL measures from the commit of the order. xmin is that commit's transaction, because no
// later one has updated the row.
const latencySQL = `
SELECT percentile_cont($2::float8) WITHIN GROUP (
  ORDER BY extract(epoch FROM p.published_at - pg_xact_commit_timestamp(o.xmin))::float8 * 1000)
FROM orders o JOIN outbox_events e ON e.aggregate_id = o.id::text JOIN outbox_published p ON p.id = e.id
WHERE o.created_at >= $1`

// latency places orders at a steady rate, through the API.
func (b *bench) latency(ctx context.Context, w way) error {
	progress("latency: %s", w.name)
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop(ctx)
	if err := d.prepare(ctx, w); err != nil {
		return err
	}
	api, err := b.start(d, "order-service", []string{"api"}, []string{fmt.Sprintf("OUTBOX_NOTIFY=%t", !w.slot)})
	if err != nil {
		return err
	}
	defer api.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	address, err := api.address(ctx, "taking orders")
	if err != nil {
		return err
	}
	relay, err := b.start(d, w.program, w.args, w.settings)
	if err != nil {
		return err
	}
	defer relay.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	if _, err := relay.logged(ctx, "connected to the broker"); err != nil {
		return err
	}
	if err := pace(ctx, address, 2*perSecond); err != nil {
		return err
	}
	warm, err := value[time.Time](ctx, d, "SELECT now()")
	if err != nil {
		return err
	}
	before, err := value[string](ctx, d, "SELECT pg_current_wal_lsn()::text")
	if err != nil {
		return err
	}
	used, orders := b.cpu(relay), *seconds*perSecond
	if err := pace(ctx, address, orders); err != nil {
		return err
	}
	b.addCPU("200/s, "+w.name+": CPU µs an order, ", used, b.cpu(relay), orders)
	if err := d.awaitEmpty(ctx); err != nil {
		return err
	}
	written, err := value[float64](ctx, d, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::float8", before)
	if err != nil {
		return err
	}
	b.add("200/s, "+w.name+": log of an order, bytes", written/float64(orders))
	for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		ms, err := value[float64](ctx, d, latencySQL, warm, share)
		if err != nil {
			return err
		}
		b.add("200/s, "+w.name+": commit to publish ms, "+name, ms)
	}
	return nil
}

// pace places an order at each tick.
func pace(ctx context.Context, address string, orders int) error {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	all, ctx := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for range orders {
		<-tick.C
		all.Go(func() error { return place(ctx, client, address) })
	}
	return all.Wait()
}

func place(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/orders",
		bytes.NewReader([]byte(`{"product_id":"sku123","quantity":1}`)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("POST /orders: %s", response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
