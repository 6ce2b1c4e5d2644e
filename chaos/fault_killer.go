package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/chaos/broker"
	"example.com/transactional-outbox/chaos/checker"
)

// plantKiller puts a message into the consumer's queue that no Go client can read: it
// closes the connection instead. Nobody but the consumer may get it, not even the tap.
func (y *system) plantKiller(ctx context.Context) error {
	return y.broker.Plant(ctx, checker.Message{Key: string(checker.Place), Body: []byte("{}"), Headers: deep(64)})
}

// deep nests tables.
func deep(levels int) map[string]any {
	table := map[string]any{}
	for range levels {
		table = map[string]any{"t": table}
	}
	return table
}

// killConnections gives the consumers a killer, with good messages behind it. The broker
// takes it away when it was delivered often enough.
func (y *system) killConnections(ctx context.Context) error {
	good, err := y.queueBehind(ctx, func() error { return y.plantKiller(ctx) })
	if err != nil {
		return err
	}
	if err := y.start(ctx); err != nil {
		return err
	}
	if err := y.awaitEffects(ctx, good, mendTime, "P9", "behind one that kills connections"); err != nil {
		return err
	}
	return y.awaitKillerDead(ctx)
}

// deliveries is the time for all deliveries that the broker allows the killer.
const deliveries = 30 * time.Second

// awaitKillerDead wants the killer alone to be a dead letter, and takes it away: the
// checker could not read it either.
func (y *system) awaitKillerDead(ctx context.Context) error {
	dead := 0
	for soon := time.Now().Add(y.scaled(deliveries)); dead == 0 && time.Now().Before(soon); {
		var err error
		if dead, err = y.broker.Ready(ctx, broker.DeadLetters); err != nil {
			return err
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	y.injected++
	if dead != 1 {
		y.complain("P9", "there are %d dead letters, where one message kills connections", dead)
		return y.removeKiller(ctx)
	}
	return y.broker.Purge(ctx, broker.DeadLetters)
}

// removeKiller takes it away from wherever it is, with all else that is there: the promise
// is broken already, and nobody can go on with it.
func (y *system) removeKiller(ctx context.Context) error {
	for _, r := range y.notifications {
		if err := y.end(ctx, r); err != nil {
			return err
		}
	}
	return errors.Join(y.broker.Purge(ctx, broker.Queue), y.broker.Purge(ctx, broker.DeadLetters))
}
