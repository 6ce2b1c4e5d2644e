package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/chaos/checker"
)

// sendKiller sends a message to the consumer's queue that the Go client cannot decode: the client
// closes the connection instead. It bypasses the tap, which the suite reads with the same client.
func (sys *system) sendKiller(ctx context.Context) error {
	return sys.broker.SendToQueue(ctx, checker.Message{Key: string(checker.Place), Body: []byte("{}"), Headers: nestedTables(64)})
}

// nestedTables returns nested tables.
func nestedTables(levels int) map[string]any {
	table := map[string]any{}
	for range levels {
		table = map[string]any{"t": table}
	}
	return table
}

// killConnections puts the killer message at the head of the queue, before valid messages. The
// broker dead-letters it after the delivery limit.
func (sys *system) killConnections(ctx context.Context) error {
	valid, err := sys.queueValidBehind(ctx, func() error { return sys.sendKiller(ctx) })
	if err != nil {
		return err
	}
	if err := sys.start(ctx); err != nil {
		return err
	}
	if err := sys.requireEffects(ctx, valid, recoveryTime, "P9", "behind a message that kills connections"); err != nil {
		return err
	}
	return sys.awaitKillerDeadLettered(ctx)
}

// deliveryTime is the time for as many deliveries as the delivery limit.
const deliveryTime = 30 * time.Second

// awaitKillerDeadLettered requires that the killer is the only dead letter, and deletes it: the
// checker could not read it either.
func (sys *system) awaitKillerDeadLettered(ctx context.Context) error {
	dead := 0
	for soon := time.Now().Add(sys.scaled(deliveryTime)); dead == 0 && time.Now().Before(soon); {
		var err error
		if dead, err = sys.broker.Ready(ctx, broker.DeadLetters); err != nil {
			return err
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	sys.injected++
	if dead != 1 {
		sys.reportViolation("P9", "there are %d dead letters, want 1: the message that kills connections", dead)
		return sys.purgeKiller(ctx)
	}
	return sys.broker.Purge(ctx, broker.DeadLetters)
}

// purgeKiller purges both queues after the promise is broken: the scenario could not end with the
// killer in a queue.
func (sys *system) purgeKiller(ctx context.Context) error {
	for _, r := range sys.notificationServices {
		if err := sys.stopReplica(ctx, r); err != nil {
			return err
		}
	}
	return errors.Join(sys.broker.Purge(ctx, broker.Queue), sys.broker.Purge(ctx, broker.DeadLetters))
}
