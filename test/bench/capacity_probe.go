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
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/forbench"
)

// prober is the janitor. It also times what a relay, a client, Prometheus and an operator do.
type prober struct {
	capacity
	address string
	keep    time.Duration   // the log's retention: the first partition is dropped after one width
	events  *forbench.Store // for everything except the janitor
	orders  []uuid.UUID     // a sample of the whole log
	took    samples
}

// sampleOrders returns a sample of the orders in the log. They have events but no order row, so the
// API answers 404 after the same statements.
func (c capacity) sampleOrders(ctx context.Context) ([]uuid.UUID, error) {
	rows, _ := c.pool.Query(ctx, "SELECT aggregate_id FROM outbox_events TABLESAMPLE SYSTEM (0.01) LIMIT 1000") // CollectRows returns the error
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
	return errors.Join(
		p.step(ctx, "make_ms", p.store.MakePartition, p.width),
		p.step(ctx, "drop_ms", p.store.DropPartition, p.keep),
		p.time("scrape_ms", func() error {
			_, err := p.events.Backlog(ctx)
			return err
		}),
		p.getOrders(ctx),
		p.claimAndMark(ctx),
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

// step records the duration of one janitor step, if it had work. If a lock is taken, the step is
// repeated a second later.
func (p prober) step(ctx context.Context, key string, step func(context.Context, time.Duration) (string, error), d time.Duration) error {
	began := time.Now()
	name, err := step(ctx, d)
	if postgres.Contended(err) {
		p.took.add(key+"_locked_out", 1)
		return nil
	}
	if err == nil && name != "" {
		p.took.add(key, milliseconds(time.Since(began)))
	}
	return err
}

// getOrders reads several orders: the first one often has to plan its statement again, because a
// partition was made or dropped.
func (p prober) getOrders(ctx context.Context) error {
	for range 10 {
		if err := p.time("get_ms", func() error { return p.get(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func (p prober) get(ctx context.Context) error {
	id := p.orders[rand.IntN(len(p.orders))] //nolint:gosec // not a secret
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/orders/"+id.String(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// claimAndMark claims some events and marks them published, without publishing them.
func (p prober) claimAndMark(ctx context.Context) error {
	var claim forbench.Claim
	err := p.time("claim_ms", func() (err error) {
		claim, err = p.events.Claim(ctx, "bench", 100, time.Minute)
		return err
	})
	if err != nil || len(claim.Events) == 0 {
		return err
	}
	return p.time("mark_ms", func() error { return p.events.MarkPublished(ctx, claim.Token, idsOf(claim)) })
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
