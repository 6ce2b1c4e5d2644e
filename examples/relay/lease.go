package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const lease = 5 * time.Second

// claimLockSQL makes claims run one after the other. They do not lock events any more.
const claimLockSQL = `SELECT pg_advisory_xact_lock(hashtext('claims'))`

// expireSQL ends the claims of relays that died.
const expireSQL = `DELETE FROM claims WHERE until <= now()`

// leaseSQL writes a claim: a token, an end, and the ids of the events.
const leaseSQL = `
WITH due AS (
  SELECT id FROM outbox o
  WHERE available_at <= now() AND id NOT IN (SELECT unnest(events) FROM claims)
  ORDER BY seq LIMIT $1
)
INSERT INTO claims (token, until, events)
SELECT $2, clock_timestamp() + $3, array_agg(id) FROM due HAVING count(*) > 0`

const heldSQL = `
SELECT id, event_key, payload FROM outbox
WHERE id IN (SELECT unnest(events) FROM claims WHERE token = $1) ORDER BY seq`

// laterSQL is a step back, so it needs the token of a claim that is still there.
const laterSQL = `
WITH lease AS (SELECT events FROM claims WHERE token = $2 FOR UPDATE)
UPDATE outbox SET available_at = now() + interval '5 seconds'
WHERE id = ANY ($1) AND id IN (SELECT unnest(events) FROM lease)`

// passWithLease publishes between two short transactions.
func (r *relay) passWithLease(ctx context.Context, publish publish) (int, error) {
	return r.passWith(ctx, leaseSQL, publish)
}

func (r *relay) passWith(ctx context.Context, sql string, publish publish) (int, error) {
	token := uuid.New()
	events, err := r.claim(ctx, sql, token)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	published, err := publish(ctx, events)
	if err != nil {
		return 0, err // the events wait until the lease ends
	}
	return len(published), r.settle(ctx, token, events, published)
}

func (r *relay) claim(ctx context.Context, sql string, token uuid.UUID) ([]event, error) {
	err := pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, claimLockSQL); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, expireSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, batch, token, lease)
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, _ := r.db.Query(ctx, heldSQL, token)
	return pgx.CollectRows(rows, pgx.RowToStructByPos[event])
}

// settle deletes what is published, whichever relay holds it now. What is not published is tried
// again later, if the claim still holds.
func (r *relay) settle(ctx context.Context, token uuid.UUID, events []event, published []uuid.UUID) error {
	ids := make([]uuid.UUID, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM outbox WHERE id = ANY ($1)", published); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, laterSQL, ids, token); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM claims WHERE token = $1", token)
		return err
	})
}
