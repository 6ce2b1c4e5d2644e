package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// topicFault is a fault of topics beside the orders'. Their events are in front of the orders'.
type topicFault struct {
	topics []string
	events int // of all topics
	lasts  time.Duration
	begin  func(context.Context) error // before the events are visible
	mend   func(context.Context) error
	// The others' normal pace must be back after this time. 0: the fault concerns all topics.
	othersWithin time.Duration
	// All events must be published this long after the mend.
	outWithin time.Duration
}

// usualTime is how long the pace without a fault is measured.
const usualTime = 6 * time.Second

// runTopicFault injects a fault of some topics, and requires that the others go on.
func (sys *system) runTopicFault(ctx context.Context, f topicFault) error {
	p, err := sys.measurePace(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	before := span{from: time.Now()}
	if err := sleep(ctx, sys.scaled(usualTime)); err != nil {
		return err
	}
	before.to = time.Now()
	fault, err := sys.faultBehind(ctx, f)
	if err != nil {
		return err
	}
	took, err := sys.requireOut(ctx, f.outWithin)
	if err != nil {
		return err
	}
	sys.noted("all %d events are out %s after the mend", f.events, took.Round(100*time.Millisecond))
	if f.othersWithin > 0 {
		err = p.requirePace(ctx, before, fault, f.othersWithin)
	}
	if took > f.outWithin+recoveryTime { // not all were published
		return err
	}
	return errors.Join(err, sys.requireArrived(ctx, f.topics, f.events, mostInHand))
}

// mostInHand is how many events all relays can have without an answer: eight windows for each
// worker.
const mostInHand = replicas * relayWorkers * 8 * 2000

// faultBehind begins the fault, makes the events visible, and mends the fault after its time.
func (sys *system) faultBehind(ctx context.Context, f topicFault) (fault span, err error) {
	began := false
	defer func() {
		if began {
			fault.to = time.Now()
			err = errors.Join(err, f.mend(context.WithoutCancel(ctx)))
		}
	}()
	err = pgx.BeginFunc(ctx, sys.orderDB, func(tx pgx.Tx) error {
		for _, topic := range f.topics {
			if err := insertBacklog(ctx, tx, topic, smallPayload, f.events/len(f.topics)); err != nil {
				return err
			}
		}
		began = true
		return f.begin(ctx)
	})
	if err != nil {
		return fault, err
	}
	fault.from = time.Now()
	if err := sleep(ctx, f.lasts); err != nil {
		return fault, err
	}
	last, err := sys.lastSeq(ctx)
	if err != nil {
		return fault, err
	}
	n, failed, err := sys.waiting(ctx, last)
	if failed > 0 {
		sys.reportViolation("P4", "%d events have failed during the fault", failed)
	}
	sys.injected += n
	return fault, err
}
