package main

import (
	"context"
	"slices"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
)

// shuffleMessages stops the consumers, drains their queue, and sends each message back three times,
// in random order.
func (sys *system) shuffleMessages(ctx context.Context) error {
	for range 2 {
		for _, r := range sys.notificationServices {
			if err := sys.stopReplica(ctx, r); err != nil {
				return err
			}
		}
		if err := sleep(ctx, sys.scaled(2*time.Second)); err != nil {
			return err
		}
		// The relay still publishes: new messages may come before or after these.
		messages, err := sys.broker.Drain(ctx, broker.Queue)
		if err != nil {
			return err
		}
		messages = slices.Concat(messages, messages, messages)
		sys.random.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
		if err := sys.broker.Redeliver(ctx, messages...); err != nil {
			return err
		}
		sys.injected += len(messages)
		if err := sys.start(ctx); err != nil {
			return err
		}
	}
	return nil
}
