package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

const (
	batch = 500
	few   = 1000 // pending events in every outbox

	topicEvents = 100_000 // waiting, of claim_flatness_topics
)

// claimable is an outbox for timing claims.
type claimable struct {
	database
	key  string // of the samples
	salt int
	held *pgx.Conn // has an old snapshot
}

func (c *claimable) close() {
	if c.held != nil {
		_ = c.held.Close(context.Background()) // in the end the server is deleted as well
	}
	c.drop()
}

// outboxes are the outboxes to compare. Each of them also has few pending events.
var outboxes = []struct {
	name string
	fill func(context.Context, *claimable, options) error
}{
	{"few", func(ctx context.Context, c *claimable, _ options) error { return c.fillFew(ctx) }},
	{"pending", func(ctx context.Context, c *claimable, o options) error {
		return errors.Join(c.fill(ctx, o.Pending-few, "pending"), c.fillFew(ctx))
	}},
	{"published", func(ctx context.Context, c *claimable, o options) error {
		return errors.Join(c.fillPublished(ctx, o.Published, "published"), c.fillFew(ctx))
	}},
	{"backed_off", func(ctx context.Context, c *claimable, o options) error {
		return errors.Join(c.fillBlocked(ctx, o.Blocked, orders(o.Blocked), backOffSQL), c.fillFew(ctx))
	}},
	{"failed", func(ctx context.Context, c *claimable, o options) error {
		return errors.Join(c.fillBlocked(ctx, o.Blocked, orders(o.Blocked), failSQL), c.fillFew(ctx))
	}},
	{"replayed", func(ctx context.Context, c *claimable, o options) error {
		return errors.Join(c.replay(ctx, o.Blocked), c.fillFew(ctx))
	}},
	{"quiet", func(ctx context.Context, c *claimable, o options) error { return c.fillQuiet(ctx, o.Waiting) }},
	{"held", func(ctx context.Context, c *claimable, o options) error { return c.fillHeld(ctx, o.Held) }},
	{"topics", func(ctx context.Context, c *claimable, o options) error {
		return c.fillTopics(ctx, topicEvents, o.Topics)
	}},
}

// measureClaims fills each outbox once, and then times claims in all of them in turn.
func (b *bench) measureClaims(ctx context.Context) error {
	var all []*claimable
	for _, o := range outboxes {
		progress("claims: filling the outbox %q", o.name)
		d, err := b.newDatabase(ctx)
		if err != nil {
			return err
		}
		c := &claimable{database: d, key: "claim_ms_" + o.name}
		defer c.close() //nolint:contextcheck // cleanup must also run after ctx has ended
		if err := o.fill(ctx, c, b.options); err != nil {
			return err
		}
		all = append(all, c)
	}
	for run := range b.Runs {
		progress("claims, run %d of %d", run+1, b.Runs)
		for _, c := range all {
			if err := c.time(ctx, b.Claims, b.samples); err != nil {
				return fmt.Errorf("%s: %w", c.key, err)
			}
		}
	}
	for _, o := range outboxes[1:] {
		b.samples.add("claim_flatness_"+o.name, b.samples.median("claim_ms_"+o.name)/b.samples.median("claim_ms_few"))
	}
	b.samples.add("claim_flatness_blocked", max(b.samples.median("claim_flatness_backed_off"), b.samples.median("claim_flatness_failed")))
	return nil
}

// fillFew adds the few pending events, after all others.
func (c *claimable) fillFew(ctx context.Context) error {
	return errors.Join(c.fill(ctx, few, "few"), c.settle(ctx))
}

// runRelay runs a relay that publishes to f, until a function returns.
func (c *claimable) runRelay(ctx context.Context, f func(ctx context.Context, relay *outbox.Relay), until func(ctx context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var relay *outbox.Relay
	to := publish.Func(1, func(ctx context.Context, _ publish.Message) error {
		f(ctx, relay)
		return nil
	})
	relay, err := outbox.NewRelay(c.pool, to, outbox.RelayConfig{
		Workers: 1, Window: batch, PollInterval: 10 * time.Millisecond, ConfirmTimeout: time.Minute, Lease: 3 * time.Minute, NoListen: true,
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	err = until(ctx)
	stop()
	return errors.Join(err, <-ended)
}

// time adds the median of several claims to the samples. The mean would include claims during a
// checkpoint. The relay publishes to a function that adds as many new events as a batch has, so
// that the backlog keeps its length.
func (c *claimable) time(ctx context.Context, claims int, s samples) error {
	t := &timing{claimable: c, claims: claims, took: samples{}, done: make(chan error, 1)}
	err := c.runRelay(ctx, t.message, func(ctx context.Context) error {
		select {
		case err := <-t.done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	s.add(c.key, t.took.median(c.key))
	return err
}

// timing is one run. It tells the claims apart by the relay's numbers.
type timing struct {
	*claimable
	claims   int
	seen     outbox.Timing
	messages int // of the batch
	took     samples
	done     chan error
}

// message is called for each message. The first claim does not count: it plans its statements.
func (t *timing) message(ctx context.Context, relay *outbox.Relay) {
	t.messages++
	last, now := t.seen, relay.Stats().Claims
	if now.Count == last.Count || len(t.took[t.key]) == t.claims {
		return // not the first message of its batch, or the last batch
	}
	t.seen = now
	c := t.claimable
	c.salt++
	err := c.fill(ctx, batch, fmt.Sprint("new ", c.salt))
	if last.Count > 0 {
		if t.messages < batch*4/5 { // an event that follows another one of its order has to wait
			err = errors.Join(err, fmt.Errorf("a claim of %d events, want %d", t.messages, batch))
		}
		t.took.add(c.key, (now.Seconds-last.Seconds)*1000/float64(now.Count-last.Count))
	}
	t.messages = 0
	if err != nil || len(t.took[c.key]) == t.claims {
		t.done <- err
	}
}
