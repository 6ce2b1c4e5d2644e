package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// race has two cursors, each with a connection of its own, and a connection for the rest.
type race struct {
	config    *pgx.ConnConfig
	db        *pgx.Conn
	conns     []*pgx.Conn
	seq       bySeq
	snapshot  bySnapshot
	published struct{ bySeq, bySnapshot []event }
}

func newRace(ctx context.Context, config *pgx.ConnConfig, page int) (_ *race, err error) {
	r := &race{config: config}
	for _, conn := range []**pgx.Conn{&r.db, &r.seq.db, &r.snapshot.db} {
		if *conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			r.close(ctx)
			return nil, err
		}
		r.conns = append(r.conns, *conn)
	}
	r.seq.page, r.seq.publish = page, appendTo(&r.published.bySeq)
	r.snapshot.page, r.snapshot.publish = page, appendTo(&r.published.bySnapshot)
	return r, r.snapshot.lead(ctx, time.Minute)
}

func (r *race) close(ctx context.Context) {
	for _, conn := range r.conns {
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

func appendTo(published *[]event) publish {
	return func(_ context.Context, events []event) error {
		*published = append(*published, events...)
		return nil
	}
}

// addSQL changes an order and adds its event. It locks the order first, until the transaction
// ends: so an order's events get their seq one after the other, in the order of their versions.
const addSQL = `
WITH changed AS (
  INSERT INTO orders VALUES ($1, 1)
  ON CONFLICT (id) DO UPDATE SET version = orders.version + 1 RETURNING id, version)
INSERT INTO events (order_id, version) SELECT id, version FROM changed RETURNING seq`

// loseOne commits event 1 after event 2 has been read.
func (r *race) loseOne(ctx context.Context) error {
	slow, err := r.db.Begin(ctx)
	if err != nil {
		return err
	}
	_, err1 := slow.Exec(ctx, addSQL, uuid.New())
	_, err2 := r.seq.db.Exec(ctx, addSQL, uuid.New()) // commits at once
	_, err3 := r.seq.pass(ctx)
	_, err4 := r.snapshot.pass(ctx)
	return errors.Join(err1, err2, err3, err4, slow.Commit(ctx))
}

// run starts the writers and both cursors. It returns when the cursors have read all they can.
func (r *race) run(ctx context.Context, writers, transactions int) error {
	orders := make([]uuid.UUID, 20)
	for i := range orders {
		orders[i] = uuid.New()
	}
	var written atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return follow(ctx, r.seq.pass, written.Load) })
	group.Go(func() error { return follow(ctx, r.snapshot.pass, written.Load) })
	group.Go(func() error {
		defer written.Store(true)
		group, ctx := errgroup.WithContext(ctx)
		for range writers {
			group.Go(func() error { return write(ctx, r.config, orders, transactions) })
		}
		return group.Wait()
	})
	return group.Wait()
}

// follow reads until the writers have ended and nothing is left.
func follow(ctx context.Context, pass func(context.Context) (int, error), ended func() bool) error {
	for {
		last := ended()
		n, err := pass(ctx)
		switch {
		case err != nil || n == 0 && last:
			return err
		case n == 0:
			time.Sleep(5 * time.Millisecond) // a poll
		}
	}
}

// report compares what each cursor has published with what is committed, and prints the counts.
func (r *race) report(ctx context.Context) error {
	rows, _ := r.db.Query(ctx, "SELECT seq, order_id, version FROM events")
	committed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	if err != nil {
		return fmt.Errorf("reading what is committed: %w", err)
	}
	fmt.Printf("%-17s %9s %6s %6s %6s %12s\n", "cursor", "committed", "read", "missed", "twice", "out of order")
	print := func(name string, c count) {
		fmt.Printf("%-17s %9d %6d %6d %6d %12d\n", name, len(committed), c.read, c.missed, c.twice, c.disordered)
	}
	bySeq, bySnapshot := compare(committed, r.published.bySeq), compare(committed, r.published.bySnapshot)
	print("seq > last", bySeq)
	print("between snapshots", bySnapshot)
	if bySeq.missed == 0 || bySnapshot != (count{read: len(committed)}) {
		return errors.New("seq > last missed nothing, or the other cursor missed, repeated or reordered events: this is a bug")
	}
	return nil
}

// count is what a cursor has done with the committed events.
type count struct{ read, missed, twice, disordered int }

func compare(committed, published []event) (c count) {
	times, newest := map[event]int{}, map[uuid.UUID]int{}
	for _, e := range published {
		times[e]++
		if times[e] > 1 {
			c.twice++
		} else if e.Version < newest[e.OrderID] {
			c.disordered++
		}
		newest[e.OrderID] = max(newest[e.OrderID], e.Version)
	}
	c.read = len(times)
	c.missed = len(slices.DeleteFunc(slices.Clone(committed), func(e event) bool { return times[e] > 0 }))
	return c
}
