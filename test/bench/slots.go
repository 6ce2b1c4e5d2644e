package main

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

const (
	ringSlots = 8
	turnovers = 3  // how often all slots are replaced
	smallSlot = 10 // the slots between the first and the last one have this part of the events
)

// measureSlots compares the first emptying of a full slot with one after all slots were replaced.
func (b *bench) measureSlots(ctx context.Context) error {
	for run := range b.Runs {
		progress("slots, run %d of %d", run+1, b.Runs)
		if err := b.emptySlots(ctx); err != nil {
			return err
		}
	}
	b.samples.add("slot_flatness", b.samples.median("slot_ms_last")/b.samples.median("slot_ms_first"))
	return nil
}

func (b *bench) emptySlots(ctx context.Context) error {
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop()
	if _, err := d.emptyNext(ctx, b.Slot, 1); err != nil { // the first relay plans its statements
		return err
	}
	const last = ringSlots*turnovers + 1
	for i := 1; i <= last; i++ {
		key, events := "", b.Slot/smallSlot
		switch i {
		case 1:
			key, events = "slot_ms_first", b.Slot
		case last:
			key, events = "slot_ms_last", b.Slot
		}
		took, err := d.emptyNext(ctx, events, (i+1)%ringSlots)
		if err != nil {
			return err
		}
		if key != "" {
			b.samples.add(key, took)
		}
	}
	return nil
}

// oldSQL makes $1 events in the slot $2, published two days ago.
const oldSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type, created_at)
  SELECT gen_random_uuid(), $2::int, 'order', gen_random_uuid()::text, 1, 'order.created',
         convert_to(jsonb_build_object('i', i, 'text', repeat('x', 300))::text, 'UTF8'), 'application/json', now() - interval '2 days'
  FROM generate_series(1, $1::int) i
  RETURNING id, slot, created_at
)
INSERT INTO outbox_published (id, slot, published_at) SELECT id, slot, created_at FROM event`

// emptyNext fills the next slot with old events, and returns how long a relay takes to empty it and
// to make it current, in milliseconds.
func (d database) emptyNext(ctx context.Context, events, next int) (float64, error) {
	if _, err := d.pool.Exec(ctx, oldSQL, events, next); err != nil {
		return 0, err
	}
	if _, err := d.pool.Exec(ctx, "UPDATE outbox_ring SET since = now() - interval '1 day'"); err != nil {
		return 0, err
	}
	if err := d.settle(ctx); err != nil {
		return 0, err
	}
	to := publish.Func(1, func(context.Context, publish.Message) error { return nil })
	relay, err := outbox.NewRelay(d.pool, to, outbox.RelayConfig{Retention: 24 * time.Hour, NoListen: true})
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- relay.Run(running) }()
	for current := -1; current != next; time.Sleep(time.Millisecond) {
		if current, err = queryValue[int](ctx, d, "SELECT current FROM outbox_ring"); err != nil {
			return 0, err
		}
		if time.Since(began) > time.Minute {
			return 0, fmt.Errorf("the janitor has not emptied the slot %d", next)
		}
	}
	took := milliseconds(time.Since(began))
	stop()
	return took, <-ended
}
