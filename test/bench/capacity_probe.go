package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// prober times what a client, Prometheus and an operator do.
type prober struct {
	capacity
	address, ops string
	orders       []uuid.UUID // a sample of the whole log
	took         samples
}

// sampleOrders returns a sample of the orders in the log. They have events but no order row, so the
// API answers 404 after the same statements.
func (c capacity) sampleOrders(ctx context.Context) ([]uuid.UUID, error) {
	rows, _ := c.pool.Query(ctx, "SELECT aggregate_id::uuid FROM outbox_events TABLESAMPLE SYSTEM (0.01) LIMIT 1000") // CollectRows returns the error
	orders, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return append(orders, uuid.Nil), err
}

// probeEverySecond probes once a second, and runs the operator's commands every ten seconds.
func (p prober) probeEverySecond(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for second := 0; ; second++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := p.probe(ctx, second%10 == 0); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (p prober) probe(ctx context.Context, commands bool) error {
	_, err := p.pool.Exec(ctx, agedSQL)
	return errors.Join(
		err,
		p.time("scrape_ms", func() error {
			_, err := p.metrics(ctx)
			return err
		}),
		p.getOrders(ctx),
		p.commands(ctx, commands),
	)
}

// time records the duration of do.
func (p prober) time(key string, do func() error) error {
	began := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	p.took.add(key, milliseconds(time.Since(began)))
	return nil
}

// getOrders reads several orders: the first one often has to plan its statement again, because a
// slot was emptied.
func (p prober) getOrders(ctx context.Context) error {
	for range 10 {
		if err := p.time("get_ms", func() error { return p.getOrder(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func (p prober) getOrder(ctx context.Context) error {
	id := p.orders[rand.IntN(len(p.orders))] //nolint:gosec // not a secret
	_, err := get(ctx, "http://"+p.address+"/orders/"+id.String())
	return err
}

// metrics returns the service's metrics without labels.
func (p prober) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := get(ctx, "http://"+p.ops+"/metrics")
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = number
		}
	}
	return values, err
}

// addRelay adds how long the relay's claims and marks took since before.
func (p prober) addRelay(ctx context.Context, before map[string]float64) error {
	after, err := p.metrics(ctx)
	for key, metric := range map[string]string{"claim_ms": "outbox_claim_seconds", "mark_ms": "outbox_mark_seconds"} {
		took, n := after[metric+"_sum"]-before[metric+"_sum"], after[metric+"_count"]-before[metric+"_count"]
		if n > 0 {
			p.took.add(key, took*1000/n)
		}
	}
	return err
}

// get returns the body of an answer, whatever its status.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), errors.Join(err, response.Body.Close())
}

// commands times operator commands, including the start of their processes.
func (p prober) commands(ctx context.Context, now bool) error {
	if !now {
		return nil
	}
	return errors.Join(
		p.time("list_ms", func() error { return p.command(ctx, "list") }),
		p.time("list_published_ms", func() error { return p.command(ctx, "list", "--status", "published", "--limit", "10") }),
	)
}

func (p prober) command(ctx context.Context, arguments ...string) error {
	program := exec.CommandContext(ctx, filepath.Join(p.folder, orderService), append([]string{"outbox"}, arguments...)...) //nolint:gosec // our own program
	program.Env = []string{"APP_ENV=demo", "DATABASE_URL=" + p.url}
	if output, err := program.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
