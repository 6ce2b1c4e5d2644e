// Command peers runs the order side of an outbox that other people maintain, as a program of
// test/compare and of test/bench:
//
//	peers NAME        takes orders, and publishes their events
//	peers fill NAME   puts the events of the table outbox_events into its outbox
//
// It is a Go module of its own, so that the services do not depend on these libraries. Each library
// has a file of its own, which says which of its documented settings it has, and which of them are
// shorter here.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/compare/shop"
)

// outbox is one of the libraries.
type outbox interface {
	// append writes a message in the order's transaction.
	append(ctx context.Context, tx pgx.Tx, m message) error
	// start publishes what is appended, until ctx ends.
	start(ctx context.Context) error
	// stop waits until what is in flight has ended.
	stop()
}

// outboxes are the libraries, by name. The functions create the tables.
var outboxes = map[string]func(context.Context, *shop.Shop) (outbox, error){
	"river":               newRiver,
	"watermill-forwarder": newWatermill,
}

// message is what an outbox stores.
type message struct {
	ID   string          `json:"id"`
	Key  string          `json:"key"`
	Body json.RawMessage `json:"body"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		slog.Error("ended", "error", err)
		os.Exit(1) //nolint:gocritic // the process exits: stop() is not needed
	}
}

func run(ctx context.Context, arguments []string) error {
	filling := len(arguments) == 2 && arguments[0] == "fill"
	if filling {
		arguments = arguments[1:]
	}
	if len(arguments) != 1 || outboxes[arguments[0]] == nil {
		return errors.New("usage: peers [fill] river|watermill-forwarder")
	}
	s, err := shop.Open(ctx)
	if err != nil {
		return err
	}
	defer s.DB.Close()
	o, err := outboxes[arguments[0]](ctx, s)
	if err != nil {
		return fmt.Errorf("%s: %w", arguments[0], err)
	}
	if filling {
		return fill(ctx, s, o)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slog.InfoContext(ctx, "starting") // test/bench measures from here on
	if err := o.start(ctx); err != nil {
		return fmt.Errorf("starting %s: %w", arguments[0], err)
	}
	defer func() { cancel(); o.stop() }()
	return s.Serve(ctx, func(ctx context.Context, e shop.Event) error { return change(ctx, s, o, e) })
}

// change stores the changed order and its event, in one transaction.
func change(ctx context.Context, s *shop.Shop, o outbox, e shop.Event) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := shop.Store(ctx, tx, e); err != nil {
			return err
		}
		return o.append(ctx, tx, message{ID: e.ID, Key: e.Key, Body: shop.Message(e).Body})
	})
}

// fill appends the events of test/bench, which this project's relay publishes as well. Each has a
// transaction of its own, as the events of orders have.
func fill(ctx context.Context, s *shop.Shop, o outbox) error {
	rows, _ := s.DB.Query(ctx, "SELECT id::text, topic, payload FROM outbox_events ORDER BY seq")
	messages, err := pgx.CollectRows(rows, pgx.RowToStructByPos[message])
	if err != nil {
		return err
	}
	for _, m := range messages {
		err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
				return err
			}
			return o.append(ctx, tx, m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
