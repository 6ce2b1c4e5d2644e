package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// write runs transactions one after the other: each changes one of the orders.
func write(ctx context.Context, config *pgx.ConnConfig, orders []uuid.UUID, transactions int) error {
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	for i := range transactions {
		order := orders[rand.IntN(len(orders))] //nolint:gosec // no secret
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return change(ctx, tx, order, i%20) })
		if err != nil && !errors.Is(err, errRollback) {
			return err
		}
	}
	return nil
}

var errRollback = errors.New("rolled back on purpose")

// change gets the number of its transaction before it waits for the order's lock. This is like a
// transaction that has written something else first.
func change(ctx context.Context, tx pgx.Tx, order uuid.UUID, kind int) error {
	if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
		return err
	}
	if err := maybeInSavepoint(ctx, tx, order, kind%5 == 0); err != nil {
		return err
	}
	switch kind {
	case 7, 14:
		return errRollback
	case 19: // a slow transaction: this is the load, nothing is awaited
		time.Sleep(30 * time.Millisecond)
	}
	return nil
}

// maybeInSavepoint adds the event: in a savepoint, after another one that is rolled back, or
// without any.
func maybeInSavepoint(ctx context.Context, tx pgx.Tx, order uuid.UUID, savepoint bool) error {
	add := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, addSQL, order)
		return err
	}
	if !savepoint {
		return add(tx)
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return errors.Join(add(tx), errRollback) })
	if !errors.Is(err, errRollback) {
		return err
	}
	return pgx.BeginFunc(ctx, tx, add)
}
