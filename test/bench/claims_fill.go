package main

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
)

// laterSQL adds $1 events, due at once, to the orders with one event, in turn.
const laterSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
  SELECT gen_random_uuid(), o.slot, 'order', o.aggregate_id, 2 + i / n, 'order.confirmed', o.payload, o.content_type
  FROM (SELECT *, row_number() OVER (ORDER BY seq) - 1 AS nth, count(*) OVER ()::int AS n FROM outbox_events) o,
  LATERAL generate_series(o.nth::int, $1::int - 1, o.n) i
  ORDER BY i
  RETURNING *
)`

// firstSQL adds $1 orders with one event each.
const firstSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
  SELECT gen_random_uuid(), current, 'order', gen_random_uuid()::text, 1, 'order.created',
         convert_to(jsonb_build_object('i', i)::text, 'UTF8'), 'application/json'
  FROM outbox_ring, generate_series(1, $1::int) i
  RETURNING *
)`

// These block the events of the queue, as a relay does after a refusal.
const (
	backOffSQL = `
UPDATE outbox_queue SET available_at = now() + interval '1 day', retry_count = 1, failure_code = 'refused', failure_reason = 'refused'`
	failSQL = `
UPDATE outbox_queue SET available_at = 'infinity', failed_at = now(), retry_count = 1, failure_code = 'refused', failure_reason = 'refused'`
)

// perOrder is how many events wait behind each blocked one.
const perOrder = 100

func orders(events int) int { return (events + perOrder - 1) / perOrder }

// fillBlocked makes orders with many later events each, all of them due, behind a first event that
// is blocked. A relay parks the later ones.
func (c *claimable) fillBlocked(ctx context.Context, events, orders int, blockSQL string) error {
	if _, err := c.pool.Exec(ctx, firstSQL+queueSQL, orders); err != nil {
		return err
	}
	if _, err := c.pool.Exec(ctx, blockSQL); err != nil {
		return err
	}
	if _, err := c.pool.Exec(ctx, laterSQL+queueSQL, events); err != nil {
		return err
	}
	return c.runRelay(ctx, func(context.Context, *outbox.Relay) {}, func(ctx context.Context) error {
		return c.awaitFalse(ctx, "SELECT EXISTS (SELECT FROM outbox_queue WHERE available_at <= now())")
	})
}

// replay fails the first event of one order, and replays it when the others are parked.
func (c *claimable) replay(ctx context.Context, events int) error {
	if err := c.fillBlocked(ctx, events, 1, failSQL); err != nil {
		return err
	}
	operator := operate.New(c.pool)
	failed, err := operator.List(ctx, operate.Filter{Status: operate.Failed}, uuid.Nil, 2)
	if err != nil {
		return err
	}
	_, err = operator.Replay(ctx, operate.NewDecision("bench", operate.CLI, operate.ByIDs), operate.IDsOf(failed))
	return err
}

// fillQuiet adds events after a quiet time. Without autovacuum, the statistics remain those of the
// empty outbox.
func (c *claimable) fillQuiet(ctx context.Context, events int) error {
	for _, table := range []string{"outbox_queue", "outbox_claims", "outbox_events_0", "outbox_published_0"} {
		if _, err := c.pool.Exec(ctx, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)"); err != nil {
			return err
		}
	}
	return errors.Join(c.settle(ctx), c.fill(ctx, events, "quiet"))
}

// topicsSQL spreads the events over $1 topics.
const topicsSQL = `UPDATE outbox_queue SET topic = 'topic-' || seq % $1::int`

// pauseTopicsSQL pauses half of the topics, as an operator does. Claims have halted their events.
const pauseTopicsSQL = `
WITH paused AS (
  INSERT INTO outbox_topics (topic, until, pause, reason, operator)
  SELECT topic, 'infinity', 1, 'bench', 'bench' FROM (SELECT DISTINCT topic FROM outbox_queue ORDER BY topic LIMIT $1::int / 2) t
  RETURNING topic
)
UPDATE outbox_queue SET halted = true, available_at = 'infinity' WHERE topic IN (SELECT topic FROM paused)`

// fillTopics adds events of many topics, of which half are paused.
func (c *claimable) fillTopics(ctx context.Context, events, topics int) error {
	err := c.fill(ctx, events, "topics")
	for _, sql := range []string{topicsSQL, pauseTopicsSQL} {
		if err == nil {
			_, err = c.pool.Exec(ctx, sql, topics)
		}
	}
	return errors.Join(err, c.fillFew(ctx))
}

// publishedSQL takes all events out of the queue, as relays do.
const publishedSQL = `
WITH done AS (DELETE FROM outbox_queue RETURNING id, slot)
INSERT INTO outbox_published (id, slot) SELECT id, slot FROM done`

// fillHeld adds events, and publishes them while somebody holds an old snapshot.
func (c *claimable) fillHeld(ctx context.Context, events int) (err error) {
	if err := c.fill(ctx, events, "held"); err != nil {
		return err
	}
	if c.held, err = pgx.Connect(ctx, c.url); err != nil {
		return err
	}
	if _, err := c.held.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM products"); err != nil {
		return err
	}
	_, err = c.pool.Exec(ctx, publishedSQL)
	return errors.Join(err, c.fillFew(ctx))
}
