package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const batch = 100

// claimSQL locks the events that waited longest. Other relays skip the locked rows.
const claimSQL = `
SELECT id, event_key, payload FROM outbox
ORDER BY seq LIMIT $1
FOR UPDATE SKIP LOCKED`

// passWithLocks claims, publishes and deletes in one transaction. The claim ends with it.
func (r *relay) passWithLocks(ctx context.Context, publish publish) (n int, _ error) {
	err := pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, claimSQL, batch) // CollectRows returns the error
		events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
		if err != nil {
			return err
		}
		published, err := publish(ctx, events)
		if err != nil {
			return err
		}
		n = len(published)
		_, err = tx.Exec(ctx, "DELETE FROM outbox WHERE id = ANY ($1)", published)
		return err
	})
	return n, err
}

// withoutConfirms believes that a message is published when the client has sent it.
func (r *relay) withoutConfirms() publish {
	return func(ctx context.Context, events []event) (published []uuid.UUID, _ error) {
		for _, e := range events {
			err := r.ch.PublishWithContext(ctx, r.exchange, e.Key, false, false, e.message())
			if err != nil {
				return nil, err
			}
			published = append(published, e.ID)
		}
		return published, nil
	}
}
