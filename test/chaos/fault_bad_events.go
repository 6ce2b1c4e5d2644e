package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The broker closes the channel for a message that is larger than its limit. It checks the limit of
// its start and of new channels.
const (
	largestMessage = 64 << 10
	badPayload     = 2 * largestMessage // events may be larger than this
)

// poisonOneOfMany stores one event for which the broker closes the channel between many good ones
// of its topic.
func (sys *system) poisonOneOfMany(ctx context.Context) error {
	return sys.mixBadEvents(ctx, 500, 1, 499)
}

// putBadEventsFirst stores thirty such events before one good one.
func (sys *system) putBadEventsFirst(ctx context.Context) error {
	return sys.mixBadEvents(ctx, 0, 30, 1)
}

// mixBadEvents stores good events, bad ones and good ones again, all of one topic. The good ones
// must be published within five seconds, and the bad ones when the broker's limit is as before.
func (sys *system) mixBadEvents(ctx context.Context, first, bad, rest int) error {
	const soon = 5 * time.Second
	topic := topicNames(1)[0]
	p, err := sys.measurePace(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	unlimited, err := sys.limitMessages(ctx, fmt.Sprint(largestMessage))
	if err != nil {
		return err
	}
	defer func() { _, err = sys.limitMessages(context.WithoutCancel(ctx), unlimited) }()
	if err := errors.Join(sys.bindTopics(ctx, topic), sleep(ctx, time.Second)); err != nil { // until they are connected again
		return err
	}
	before := span{from: time.Now()}
	if err := sleep(ctx, sys.scaled(usualTime)); err != nil {
		return err
	}
	before.to = time.Now()
	err = pgx.BeginFunc(ctx, sys.orderDB, func(tx pgx.Tx) error {
		return errors.Join(insertBacklog(ctx, tx, topic, smallPayload, first), insertBacklog(ctx, tx, topic, badPayload, bad),
			insertBacklog(ctx, tx, topic, smallPayload, rest))
	})
	if err != nil {
		return err
	}
	fault := span{from: time.Now()}
	if err := sys.requireGoodPublished(ctx, first+rest, soon); err != nil {
		return err
	}
	if err := sleep(ctx, sys.lasting(30*time.Second)); err != nil {
		return err
	}
	fault.to = time.Now()
	if err := sys.requireOnlyTooLargeWait(ctx, bad); err != nil {
		return err
	}
	if err := p.requirePace(ctx, before, fault, soon); err != nil {
		return err
	}
	if _, err := sys.limitMessages(ctx, unlimited); err != nil {
		return err
	}
	outWithin := 2*fault.to.Sub(fault.from) + recoveryTime // the pause of a refused event doubles
	took, err := sys.requireOut(ctx, outWithin)
	sys.noted("all %d bad events are out %s after the mend", bad, took.Round(100*time.Millisecond))
	if took > outWithin+recoveryTime { // not all were published
		return err
	}
	return errors.Join(err, sys.requireArrived(ctx, []string{topic}, first+bad+rest, mostInHand))
}

// limitMessages sets the broker's limit for a message's size, and cuts the relays' connections, so
// that it holds for them. It returns the limit before.
func (sys *system) limitMessages(ctx context.Context, bytes string) (before string, err error) {
	before, err = sys.rabbitmq.Ctl(ctx, "eval", fmt.Sprintf(
		"{ok, Before} = application:get_env(rabbit, max_message_size), application:set_env(rabbit, max_message_size, %s), "+
			"io:format(\"~w\", [Before]).", bytes))
	if err != nil {
		return "", err
	}
	n := 0
	if _, err := fmt.Sscan(before, &n); err != nil {
		return "", fmt.Errorf("the limit is %q: %w", before, err)
	}
	return fmt.Sprint(n), sys.cutPublishers()
}

// requireGoodPublished requires that the small events of the topic are published soon.
func (sys *system) requireGoodPublished(ctx context.Context, want int, soon time.Duration) error {
	const waitingSQL = "SELECT count(*) FROM outbox_queue WHERE topic LIKE 'backlog.%' AND bytes = $1"
	for began := time.Now(); ; {
		waiting := 0
		err := sys.orderDB.QueryRow(ctx, waitingSQL, smallPayload).Scan(&waiting)
		took := time.Since(began)
		switch {
		case err != nil:
			return err
		case waiting == 0:
			sys.noted("the %d good events are out after %s", want, ms(took))
			return nil
		case took > soon:
			sys.reportViolation("P4", "%d of %d good events wait for bad ones of their topic after %s", waiting, want, soon)
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// requireOnlyTooLargeWait requires that the bad events wait, and are not failed.
func (sys *system) requireOnlyTooLargeWait(ctx context.Context, bad int) error {
	var waiting, failed int
	err := sys.orderDB.QueryRow(ctx, "SELECT count(*), count(failed_at) FROM outbox_queue WHERE bytes = $1", badPayload).Scan(&waiting, &failed)
	if failed > 0 {
		sys.reportViolation("P4", "%d of %d bad events have failed before RELAY_GIVE_UP", failed, bad)
	}
	sys.injected += waiting
	return err
}
