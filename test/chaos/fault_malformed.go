package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/chaos/checker"
)

// blockDeadLetters starts a consumer on a queue with malformed messages: one at the head and eight
// at the end. The broker blocks publishers, so the consumer cannot dead-letter them. The valid
// messages must still have their effect.
func (sys *system) blockDeadLetters(ctx context.Context) (err error) {
	valid, err := sys.queueValidBehind(ctx, func() error { return sys.publishMalformed(ctx, 1) })
	if err != nil {
		return err
	}
	if err := sys.publishMalformed(ctx, 8); err != nil {
		return err
	}
	unblock, err := sys.blockPublishers(ctx, memoryAlarm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unblock()) }()
	if err := sys.notificationServices[0].start(ctx); err != nil {
		return err
	}
	return sys.requireEffects(ctx, valid, recoveryTime, "P9", "behind malformed ones that cannot be dead-lettered")
}

// queueValidBehind stops the consumers and the flow of events. It puts the messages of first at the
// head of the queue and the valid messages behind them, and returns the ids of the valid ones.
func (sys *system) queueValidBehind(ctx context.Context, first func() error) (valid []string, err error) {
	sys.allowInFlight()
	sys.allowed.Refusals = true // there may be no answer in time
	for _, r := range sys.notificationServices {
		if err := sys.stopReplica(ctx, r); err != nil {
			return nil, err
		}
	}
	if err := sleep(ctx, sys.scaled(time.Second)); err != nil {
		return nil, err
	}
	for _, p := range sys.ordersToBroker {
		p.Stall()
		defer p.Resume()
	}
	if err := sleep(ctx, 300*time.Millisecond); err != nil { // messages in flight arrive
		return nil, err
	}
	messages, err := sys.broker.Drain(ctx, broker.Queue)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		valid = append(valid, m.ID)
	}
	if len(valid) < 20 {
		return nil, fmt.Errorf("%d valid messages are too few", len(valid))
	}
	return valid, errors.Join(first(), sys.broker.Redeliver(ctx, messages...))
}

// publishMalformed publishes malformed messages.
func (sys *system) publishMalformed(ctx context.Context, n int) error {
	if sys.allowed.Malformed == nil {
		sys.allowed.Malformed = map[string]checker.Message{}
	}
	var bad []checker.Message
	for range n {
		m := checker.Message{ID: uuid.NewString(), Key: string(checker.Place), Body: []byte("{\"order_id\": \xff")}
		bad, sys.allowed.Malformed[m.ID] = append(bad, m), m
	}
	return sys.broker.Publish(ctx, bad...)
}

// forbidDeadLetters revokes the consumers' permission to publish dead letters.
func (sys *system) forbidDeadLetters(ctx context.Context) (err error) {
	const allButDeadLetters = `^(?!notification-service\.dlx$)`
	if _, err := sys.rabbitmq.Ctl(ctx, "set_permissions", notificationService, ".*", allButDeadLetters, ".*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.setPermissions(context.WithoutCancel(ctx))) }()
	for range 3 {
		if err := errors.Join(sys.publishMalformed(ctx, 3), sys.sleepRandom(ctx, sys.scaled(4*time.Second))); err != nil {
			return err
		}
	}
	return sys.countRefusedCopies(ctx)
}
