package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// pace measures how long the orders' events take from their transaction to the broker. The database
// runs on this machine, so there is one clock.
type pace struct {
	sys  *system
	stop func()

	mu       sync.Mutex
	arrivals map[string]time.Time // the first ones
}

// measurePace begins to measure.
func (sys *system) measurePace(ctx context.Context) (*pace, error) {
	p := &pace{sys: sys, arrivals: map[string]time.Time{}}
	stop, err := sys.broker.Watch(ctx, "order.*", p.note)
	if err != nil {
		return nil, err
	}
	p.stop = stop
	sys.closers = append(sys.closers, stop)
	return p, nil
}

func (p *pace) note(id string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.arrivals[id]; !known {
		p.arrivals[id] = at
	}
}

// sent is one event of an order. Delay is how long it took; for one that has not arrived, until
// now.
type sent struct {
	At    time.Time // the start of its transaction
	Delay time.Duration
}

// between returns the events whose transactions started in a range of time.
func (p *pace) between(ctx context.Context, from, to time.Time) (all []sent, err error) {
	rows, _ := p.sys.orderDB.Query(ctx, `
		SELECT id::text, created_at FROM outbox_events
		WHERE topic LIKE 'order.%' AND created_at >= $1 AND created_at < $2`, from, to)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	var id string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		arrived, known := p.arrivals[id]
		if !known {
			arrived = now
		}
		all = append(all, sent{at, arrived.Sub(at)})
		return nil
	})
	return all, err
}

// median returns the median and the longest delay.
func median(all []sent) (p50, longest time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	delays := make([]time.Duration, len(all))
	for i, e := range all {
		delays[i] = e.Delay
	}
	slices.Sort(delays)
	return delays[len(delays)/2], delays[len(delays)-1]
}

// A fault of other topics may make the orders' events twice as slow, but less than paceFloor is
// noise: the machine is shared. It may hold none of them longer than paceLongest, for example while
// it is probed whether the fault is over.
const (
	paceFactor  = 2
	paceFloor   = 25 * time.Millisecond
	paceLongest = time.Second
)

// span is a fault: from its beginning until the mend.
type span struct{ from, to time.Time }

// requirePace requires that a fault of other topics holds the orders' events for a short time at
// most: what was committed until then arrives by then, and after that the pace is what it was
// before. before is the time without the fault.
func (p *pace) requirePace(ctx context.Context, before, fault span, within time.Duration) error {
	normal, err := p.between(ctx, before.from, before.to)
	if err != nil {
		return err
	}
	recovered := fault.from.Add(within)
	first, err := p.between(ctx, fault.from, recovered)
	if err != nil {
		return err
	}
	later, err := p.between(ctx, recovered, fault.to)
	if err != nil {
		return err
	}
	if min(len(normal), len(first), len(later)) < 20 {
		p.sys.reportViolation("harness", "too few events to measure the pace: %d, %d, %d", len(normal), len(first), len(later))
	}
	usual, _ := median(normal)
	p50, longest := median(later)
	late, held := 0, time.Duration(0)
	for _, e := range first {
		arrived := e.At.Add(e.Delay)
		if arrived.After(recovered) && e.Delay > paceLongest {
			late++
		}
		if e.Delay > paceLongest {
			held = max(held, arrived.Sub(fault.from))
		}
	}
	p.sys.noted("others: p50 %s before the fault; held until %s after its start; then p50 %s, longest %s%s",
		ms(usual), ms(held), ms(p50), ms(longest), heldLater(later, fault.from))
	if late > 0 {
		p.sys.reportViolation("P4", "%d events of other topics arrived later than %s after the start of the fault, the last one after %s", late, within, ms(held))
	}
	if bound := max(paceFactor*usual, paceFloor); p50 > bound {
		p.sys.reportViolation("P4", "p50 of other topics from commit to publish is %s during the fault, and %s before it", ms(p50), ms(usual))
	}
	if longest > paceLongest {
		p.sys.reportViolation("P4", "an event of another topic took %s during the fault, later than %s after its start", ms(longest), within)
	}
	return nil
}

// heldLater says when the events were committed that took long.
func heldLater(all []sent, since time.Time) string {
	first, last, n := time.Duration(0), time.Duration(0), 0
	for _, e := range all {
		if at := e.At.Sub(since); e.Delay > paceLongest {
			n++
			last = max(last, at)
			if first == 0 || at < first {
				first = at
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d took more than %s, committed %s to %s after its start", n, paceLongest, ms(first), ms(last))
}

func ms(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
