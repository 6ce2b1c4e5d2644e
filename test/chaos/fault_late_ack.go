package main

import (
	"context"
	"errors"
	"time"
)

// resetThenKill produces acknowledgements after their connection is closed. If the consumer sent
// such an ack on the next connection, it would acknowledge another message that is not processed
// yet, and the kill would lose that message. Or it would match no message, and the broker would
// close the channel.
func (sys *system) resetThenKill(ctx context.Context) error {
	if err := sleep(ctx, sys.scaled(2*time.Second)); err != nil {
		return err
	}
	if err := sys.ackAfterReset(ctx); err != nil {
		return err
	}
	for _, r := range sys.notificationServices {
		if err := sys.kill(ctx, r); err != nil {
			return err
		}
		sys.allowMailRepeats(r)
	}
	return nil
}

// ackAfterReset resets the consumers' connections to the broker while their transactions wait for
// the database, waits until a client library could have reconnected, and lets the transactions
// commit. Each connection numbers its deliveries from 1. After the first reset the numbers are
// small, so the delivery tags from before a reset are valid after it.
func (sys *system) ackAfterReset(ctx context.Context) error {
	for range 3 {
		for _, p := range sys.notifyToDB {
			p.Stall()
		}
		err := sleep(ctx, 700*time.Millisecond) // until each consumer has messages
		for _, p := range sys.notifyToBroker {
			sys.injected += p.Open()
			p.Reset()
		}
		err = errors.Join(err, sleep(ctx, 1500*time.Millisecond))
		for _, p := range sys.notifyToDB {
			p.Resume()
		}
		if err := errors.Join(err, sleep(ctx, 1500*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}
