package main

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/chaos/mailserver"
)

// resetThenKill lets acknowledgements come after their connection is gone. One that went
// out on the next connection would be taken for that of another message, which nobody
// has handled yet, and which the kill then loses; or for that of none, which the broker
// does not forgive.
func (y *system) resetThenKill(ctx context.Context) error {
	defer y.mail.Feel(mailserver.Mood{})
	if err := sleep(ctx, y.scaled(2*time.Second)); err != nil {
		return err
	}
	if err := y.acknowledgeLate(ctx); err != nil {
		return err
	}
	for _, r := range y.notifications {
		if err := y.kill(ctx, r); err != nil {
			return err
		}
		y.excuseDeath(r)
	}
	return nil
}

// acknowledgeLate resets the connections of consumers whose workers all wait for the mail
// server, gives time to reconnect to whoever does that behind their backs, and lets them
// finish. Each connection numbers its deliveries from 1: after the first reset the
// numbers are small, so that those from before the second mean something after it.
func (y *system) acknowledgeLate(ctx context.Context) error {
	if busy, err := y.holdAll(ctx); err != nil || !busy {
		return err
	}
	for _, batches := range []int{2, 1} {
		for _, p := range y.notifyToBroker {
			y.injected += p.Open()
			p.Reset()
		}
		if err := sleep(ctx, 1500*time.Millisecond); err != nil {
			return err
		}
		for range batches {
			if busy, err := y.holdAll(ctx); err != nil || !busy {
				return err
			}
		}
	}
	return nil
}

// holdAll lets go what the mail server holds, and waits until every worker has the next
// message in hand: there are enough. A consumer that has just started has one alone,
// until it has seen a good one.
func (y *system) holdAll(ctx context.Context) (busy bool, err error) {
	const all = replicas * mailWorkers
	for deadline := time.Now().Add(patience / 3); time.Now().Before(deadline); {
		y.mail.Feel(mailserver.Mood{Hold: true})
		for soon := time.Now().Add(3 * time.Second); time.Now().Before(soon); {
			if y.mail.Held() == all {
				return true, nil
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return false, err
			}
		}
	}
	what := fmt.Sprintf("%d of %d workers have something in hand, %s after the last reset", y.mail.Held(), all, patience/3)
	y.broken = append(y.broken, complaint{"P5", what})
	return false, nil
}
