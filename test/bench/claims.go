package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/forbench"
)

const (
	batch = 500
	few   = 1000 // pending events in every outbox
	lease = time.Minute
)

// claimable is an outbox for timing claims.
type claimable struct {
	database
	key   string // of the samples
	db    *postgres.DB
	store *forbench.Store
	close func()
	salt  int
}

// outboxes are the outboxes to compare. Each of them also has few pending events.
var outboxes = []struct {
	name string
	fill func(context.Context, *claimable, options) error
}{
	{"few", func(context.Context, *claimable, options) error { return nil }},
	{"pending", func(ctx context.Context, c *claimable, o options) error {
		return c.fill(ctx, o.Pending-few, "pending")
	}},
	{"published", func(ctx context.Context, c *claimable, o options) error {
		return c.fillPublished(ctx, o.Published, "published")
	}},
	{"backed_off", func(ctx context.Context, c *claimable, o options) error {
		return c.fillBlocked(ctx, o.Blocked, orders(o.Blocked), c.backOff)
	}},
	{"failed", func(ctx context.Context, c *claimable, o options) error {
		return c.fillBlocked(ctx, o.Blocked, orders(o.Blocked), c.fail)
	}},
	{"replayed", func(ctx context.Context, c *claimable, o options) error { return c.replay(ctx, o.Blocked) }},
}

// measureClaims fills each outbox once, and then times claims in all of them in turn.
func (b *bench) measureClaims(ctx context.Context) error {
	var all []*claimable
	for _, o := range outboxes {
		progress("claims: filling the outbox %q", o.name)
		c, err := b.newClaimable(ctx, "claim_ms_"+o.name)
		if err != nil {
			return err
		}
		defer c.close()
		if err := o.fill(ctx, c, b.options); err != nil {
			return err
		}
		if err := c.fill(ctx, few, "few"); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		all = append(all, c)
	}
	for run := range b.Runs {
		progress("claims, run %d of %d", run+1, b.Runs)
		for _, c := range all {
			if err := c.time(ctx, b.Claims, b.samples); err != nil {
				return err
			}
		}
	}
	for _, o := range outboxes[1:] {
		b.samples.add("claim_flatness_"+o.name, b.samples.median("claim_ms_"+o.name)/b.samples.median("claim_ms_few"))
	}
	b.samples.add("claim_flatness_blocked", max(b.samples.median("claim_flatness_backed_off"), b.samples.median("claim_flatness_failed")))
	return nil
}

func (b *bench) newClaimable(ctx context.Context, key string) (*claimable, error) {
	d, err := b.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, d.url, 1)
	if err != nil {
		d.drop()
		return nil, err
	}
	return &claimable{database: d, key: key, db: db, store: forbench.NewStore(db), close: func() { db.Close(); d.drop() }}, nil
}

// time adds the median of several claims to the samples. The mean would include claims during a
// checkpoint.
func (c *claimable) time(ctx context.Context, claims int, s samples) error {
	took := samples{}
	for range claims {
		began := time.Now()
		claim, err := c.store.Claim(ctx, "bench", batch, lease)
		if err != nil {
			return err
		}
		took.add(c.key, milliseconds(time.Since(began)))
		if err := c.replaceBatch(ctx, claim); err != nil {
			return err
		}
	}
	s.add(c.key, took.median(c.key))
	return nil
}

// replaceBatch marks a batch published and adds as many new events.
func (c *claimable) replaceBatch(ctx context.Context, claim forbench.Claim) error {
	if len(claim.Events) < batch*4/5 { // the rest of the candidates are second events of their orders
		return fmt.Errorf("a claim of %d events, want %d", len(claim.Events), batch)
	}
	if err := c.store.MarkPublished(ctx, claim.Token, idsOf(claim)); err != nil {
		return err
	}
	c.salt++
	return c.fill(ctx, len(claim.Events), fmt.Sprint("new ", c.salt))
}

func idsOf(claim forbench.Claim) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(claim.Events))
	for _, e := range claim.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

// laterSQL adds $1 events, due at once, to the orders with one event, in turn.
const laterSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
  SELECT gen_random_uuid(), 'order', o.aggregate_id, 2 + i / n, 'order.confirmed', o.payload
  FROM (SELECT aggregate_id, payload, row_number() OVER (ORDER BY seq) - 1 AS nth, count(*) OVER ()::int AS n FROM outbox_events) o,
  LATERAL generate_series(o.nth::int, $1::int - 1, o.n) i
  ORDER BY i
  RETURNING *
)`

// firstSQL adds $1 orders with one event each.
const firstSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
  SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('i', i)
  FROM generate_series(1, $1::int) i
  RETURNING *
)`

// fillBlocked makes orders with many later events each, all of them due, and then lets a relay
// set the first events back. The next claims park the later ones.
func (c *claimable) fillBlocked(ctx context.Context, events, orders int, postpone func(context.Context, forbench.Claim) error) error {
	if _, err := c.pool.Exec(ctx, firstSQL+queueSQL, orders); err != nil {
		return err
	}
	first, err := c.store.Claim(ctx, "bench", orders, lease)
	if err != nil {
		return err
	}
	if _, err := c.pool.Exec(ctx, laterSQL+queueSQL, events); err != nil {
		return err
	}
	if err := postpone(ctx, first); err != nil {
		return err
	}
	if _, err := c.store.Release(ctx, first.Token); err != nil {
		return err
	}
	for more := true; err == nil && more; {
		var claim forbench.Claim
		claim, err = c.store.Claim(ctx, "bench", batch, lease)
		more = claim.More
	}
	return err
}

// perOrder is how many events wait behind each blocked one.
const perOrder = 100

func orders(events int) int { return (events + perOrder - 1) / perOrder }

// replay fails the first event of one order, and replays it when the others are parked.
func (c *claimable) replay(ctx context.Context, events int) error {
	var failed []uuid.UUID
	err := c.fillBlocked(ctx, events, 1, func(ctx context.Context, first forbench.Claim) error {
		failed = idsOf(first)
		return c.fail(ctx, first)
	})
	if err != nil {
		return err
	}
	_, err = forbench.NewOperator(c.db).Replay(ctx, audit.New("bench", audit.CLI, "--all"), failed)
	return err
}

func (c *claimable) backOff(ctx context.Context, first forbench.Claim) error {
	var back []forbench.Failure
	for _, id := range idsOf(first) {
		back = append(back, failure(id))
	}
	_, err := c.store.Reschedule(ctx, first.Token, back)
	return err
}

func (c *claimable) fail(ctx context.Context, first forbench.Claim) error {
	for _, id := range idsOf(first) {
		if _, _, err := c.store.Fail(ctx, first.Token, failure(id)); err != nil {
			return err
		}
	}
	return nil
}

func failure(id uuid.UUID) forbench.Failure {
	return forbench.Failure{ID: id, Delay: time.Hour, Counts: true, Code: "refused", Reason: "refused"}
}
