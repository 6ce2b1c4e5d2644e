package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

const (
	batch = 500
	few   = 1000 // pending events beside which all others are put
	lease = time.Minute
)

// claimable is an outbox in which claims are timed.
type claimable struct {
	database
	key   string // of the time of a claim
	store *outbox.Store
	close func()
	salt  int
}

// outboxes are all with few events pending, and what else there is.
var outboxes = []struct {
	name string
	fill func(context.Context, *claimable, options) error
}{
	{"few", func(context.Context, *claimable, options) error { return nil }},
	{"pending", func(ctx context.Context, c *claimable, o options) error {
		return c.fill(ctx, o.Pending-few, "pending", "pending")
	}},
	{"published", func(ctx context.Context, c *claimable, o options) error {
		return c.fill(ctx, o.Published, "published", "published")
	}},
	{"backed_off", func(ctx context.Context, c *claimable, o options) error {
		return c.fillBlocked(ctx, o.Blocked, c.backOff)
	}},
	{"failed", func(ctx context.Context, c *claimable, o options) error {
		return c.fillBlocked(ctx, o.Blocked, c.fail)
	}},
}

// measureClaims fills each outbox once, and then times claims in all by turns.
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
		if err := c.fill(ctx, few, "few", "pending"); err != nil {
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
	return &claimable{database: d, key: key, store: outbox.NewStore(db), close: func() { db.Close(); d.drop() }}, nil
}

// time adds the median of several claims to samples. It is not the mean: a claim during
// which the server writes a checkpoint says nothing about the statement.
func (c *claimable) time(ctx context.Context, claims int, s samples) error {
	took := samples{}
	for range claims {
		began := time.Now()
		claim, err := c.store.Claim(ctx, "bench", batch, lease)
		if err != nil {
			return err
		}
		took.add(c.key, float64(time.Since(began).Microseconds())/1000)
		if err := c.turnOver(ctx, claim); err != nil {
			return err
		}
	}
	s.add(c.key, took.median(c.key))
	return nil
}

// turnOver publishes a batch and puts a new one in its place.
func (c *claimable) turnOver(ctx context.Context, claim outbox.Claim) error {
	if len(claim.Events) != batch {
		return fmt.Errorf("a claim of %d events, where %d are due", len(claim.Events), batch)
	}
	if err := c.store.MarkPublished(ctx, idsOf(claim)); err != nil {
		return err
	}
	c.salt++
	return c.fill(ctx, batch, fmt.Sprint("new ", c.salt), "pending")
}

func idsOf(claim outbox.Claim) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(claim.Events))
	for _, e := range claim.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

// laterSQL adds $1 further events, due at once, to the orders with one event, in turn.
const laterSQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
SELECT gen_random_uuid(), 'order', o.aggregate_id, 2 + i / n, 'order.confirmed', o.payload
FROM (SELECT aggregate_id, payload, row_number() OVER (ORDER BY seq) - 1 AS nth, count(*) OVER ()::int AS n FROM outbox_events) o,
LATERAL generate_series(o.nth::int, $1::int - 1, o.n) i
ORDER BY i`

// firstSQL makes $1 orders with one event.
const firstSQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('i', i)
FROM generate_series(1, $1::int) i`

// fillBlocked makes orders with a hundred later events each, all of them due, and then
// lets a relay set the first events back.
func (c *claimable) fillBlocked(ctx context.Context, events int, setBack func(context.Context, outbox.Claim) error) error {
	const later = 100
	if _, err := c.pool.Exec(ctx, firstSQL, (events+later-1)/later); err != nil {
		return err
	}
	first, err := c.store.Claim(ctx, "bench", events, lease)
	if err != nil {
		return err
	}
	if _, err := c.pool.Exec(ctx, laterSQL, events); err != nil {
		return err
	}
	return setBack(ctx, first)
}

func (c *claimable) backOff(ctx context.Context, first outbox.Claim) error {
	var back []outbox.Setback
	for _, id := range idsOf(first) {
		back = append(back, setback(id))
	}
	_, err := c.store.Reschedule(ctx, first.Token, back)
	return err
}

func (c *claimable) fail(ctx context.Context, first outbox.Claim) error {
	for _, id := range idsOf(first) {
		if _, _, err := c.store.Fail(ctx, first.Token, setback(id)); err != nil {
			return err
		}
	}
	return nil
}

func setback(id uuid.UUID) outbox.Setback {
	return outbox.Setback{ID: id, Delay: time.Hour, Spends: true, Code: "refused", Reason: "refused"}
}
