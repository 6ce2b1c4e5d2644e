// Command peers runs the order side of an outbox that other people maintain, as a program of
// test/compare: `peers NAME` takes orders, and publishes their events.
//
// It is a Go module of its own, so that the services do not depend on these libraries. Each library
// has a file of its own, which says which of its documented settings it has, and which of them are
// shorter here.
package main

import (
	"context"
	"encoding/json"
	"fmt"

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

// message is what an outbox stores.
type message struct {
	ID   string          `json:"id"`
	Key  string          `json:"key"`
	Body json.RawMessage `json:"body"`
}

func main() {
	shop.Main(map[string]shop.Program{"river": orderSide(newRiver), "watermill-forwarder": orderSide(newWatermill)})
}

// orderSide takes orders, and publishes their events by a library. open creates its tables.
func orderSide(open func(context.Context, *shop.Shop) (outbox, error)) shop.Program {
	return func(ctx context.Context, s *shop.Shop) error {
		defer s.DB.Close()
		o, err := open(ctx, s)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := o.start(ctx); err != nil {
			return fmt.Errorf("starting: %w", err)
		}
		defer func() { cancel(); o.stop() }()
		return s.Serve(ctx, func(ctx context.Context, e shop.Event) error { return change(ctx, s, o, e) })
	}
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
