package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// giveUpSoon makes events fail soon if what is no refusal is counted as one.
var giveUpSoon = []string{"RELAY_GIVE_UP=1s"}

// flap cuts the relays' connections every two seconds, each time while they send a backlog.
func (sys *system) flap(ctx context.Context) error {
	topics := topicNames(1)
	if err := sys.bindTopics(ctx, topics...); err != nil {
		return err
	}
	const pause = 2 * time.Second
	cuts := int(sys.lasting(time.Minute) / pause)
	portion := sys.many(100_000) / cuts
	for range cuts {
		err := pgx.BeginFunc(ctx, sys.orderDB, func(tx pgx.Tx) error {
			return insertBacklog(ctx, tx, topics[0], smallPayload, portion)
		})
		if err != nil {
			return err
		}
		// The relays look for new events every 200 ms.
		sending := time.Duration(sys.random.Int64N(int64(400 * time.Millisecond)))
		if err := sleep(ctx, sending); err != nil {
			return err
		}
		for _, p := range sys.publisherProxies() {
			sys.injected += p.Open()
		}
		if err := sys.cutPublishers(); err != nil {
			return err
		}
		if err := sleep(ctx, pause-sending); err != nil {
			return err
		}
	}
	took, err := sys.requireOut(ctx, 5*time.Second-pause) // it has slept since the last cut
	if err != nil {
		return err
	}
	sys.noted("all events are out %s after the last cut and a pause of %s", took.Round(100*time.Millisecond), pause)
	if err := sys.requireNoneCounted(ctx); err != nil {
		return err
	}
	return sys.requireArrived(ctx, topics, portion*cuts, cuts*replicas*relayWorkers*2000)
}

// requireNoneCounted requires that no event was counted as refused: nothing but connections was lost.
func (sys *system) requireNoneCounted(ctx context.Context) error {
	var published, queued int
	err := sys.orderDB.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_published WHERE retry_count > 0),
		(SELECT count(*) FROM outbox_queue WHERE retry_count > 0)`).Scan(&published, &queued)
	if published+queued > 0 {
		sys.reportViolation("P4", "%d events were counted as refused", published+queued)
	}
	return err
}
