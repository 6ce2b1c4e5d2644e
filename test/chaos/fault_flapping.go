package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// giveUpSoon makes events fail soon if what is no refusal is counted as one.
var giveUpSoon = []string{"RELAY_GIVE_UP=1s"}

const (
	cutEvery = 2 * time.Second
	// flapSoon is when all must be out after the last cut.
	flapSoon = 5 * time.Second
)

// flap cuts the relays' connections every two seconds, each time while events wait for their
// answers.
func (sys *system) flap(ctx context.Context) error {
	topics := topicNames(1)
	if err := sys.bindTopics(ctx, topics...); err != nil {
		return err
	}
	cuts := int(sys.lasting(time.Minute) / cutEvery)
	portion := sys.many(100_000) / cuts
	for n := range cuts {
		held := time.Duration(sys.random.Int64N(int64(cutEvery / 4)))
		if n > 0 {
			if err := sleep(ctx, cutEvery-held); err != nil {
				return err
			}
		}
		if err := sys.cutWithoutAnswers(ctx, held, topics[0], portion); err != nil {
			return err
		}
	}
	if err := sys.requireConnected(ctx, flapSoon); err != nil {
		return err
	}
	if err := sys.requireNoneCounted(ctx); err != nil {
		return err
	}
	return sys.requireArrived(ctx, topics, portion*cuts, cuts*replicas*relayWorkers*2000)
}

// cutWithoutAnswers stores events, and cuts the connections a moment later. Meanwhile the broker's
// answers do not arrive.
func (sys *system) cutWithoutAnswers(ctx context.Context, held time.Duration, topic string, events int) error {
	for _, p := range sys.publisherProxies() {
		p.HoldReplies()
		defer p.Resume()
	}
	err := pgx.BeginFunc(ctx, sys.orderDB, func(tx pgx.Tx) error {
		return insertBacklog(ctx, tx, topic, smallPayload, events)
	})
	if err := errors.Join(err, sleep(ctx, held)); err != nil {
		return err
	}
	for _, p := range sys.publisherProxies() {
		sys.injected += p.Open()
	}
	return sys.cutPublishers()
}

// requireConnected requires that all events are published soon, and that each relay is connected
// again by then: there may be one relay only.
func (sys *system) requireConnected(ctx context.Context, within time.Duration) error {
	began := time.Now()
	took, err := sys.requireOut(ctx, within)
	if err != nil {
		return err
	}
	sys.noted("all events are out %s after the last cut; %d connections were cut", took.Round(100*time.Millisecond), sys.injected)
	for i, proxies := range sys.ordersToBroker {
		for proxies.Open() == 0 {
			if time.Since(began) > maxWait {
				return fmt.Errorf("%s never connects", sys.orderServices[i].name)
			}
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		if took := time.Since(began); took > within {
			sys.reportViolation("P4", "%s connects only %s after the last cut", sys.orderServices[i].name, took.Round(100*time.Millisecond))
		}
	}
	return nil
}

// requireNoneCounted requires that no event was counted as refused: nothing but connections was
// lost.
func (sys *system) requireNoneCounted(ctx context.Context) error {
	var published, queued int
	err := sys.orderDB.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_published WHERE retry_count > 0),
		(SELECT count(*) FROM outbox_queue WHERE retry_count > 0)`).Scan(&published, &queued)
	if published+queued > 0 {
		sys.reportViolation("P4", "%d events were counted as refused", published+queued)
	}
	return err
}
