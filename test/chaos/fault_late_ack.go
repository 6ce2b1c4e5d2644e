package main

import (
	"context"
	"time"

	"example.com/transactional-outbox/test/chaos/mailserver"
)

// resetThenKill produces acknowledgements after their connection is closed. If the consumer sent
// such an ack on the next connection, it would acknowledge another message that is not processed
// yet, and the kill would lose that message. Or it would match no message, and the broker would
// close the channel.
func (sys *system) resetThenKill(ctx context.Context) error {
	defer sys.mail.SetFault(mailserver.Fault{})
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

// ackAfterReset resets the consumers' connections while all workers wait for the mail server, waits
// until a client library could have reconnected, and lets the workers finish. Each connection
// numbers its deliveries from 1. After the first reset the numbers are small, so the delivery tags
// from before the second reset are valid after it.
func (sys *system) ackAfterReset(ctx context.Context) error {
	if busy, err := sys.holdAllWorkers(ctx); err != nil || !busy {
		return err
	}
	for _, batches := range []int{2, 1} {
		for _, p := range sys.notifyToBroker {
			sys.injected += p.Open()
			p.Reset()
		}
		if err := sleep(ctx, 1500*time.Millisecond); err != nil {
			return err
		}
		for range batches {
			if busy, err := sys.holdAllWorkers(ctx); err != nil || !busy {
				return err
			}
		}
	}
	return nil
}

// holdAllWorkers releases the e-mails that the mail server holds, and waits until every worker
// holds the next one. After its start, a consumer takes one message at a time until one has
// succeeded.
func (sys *system) holdAllWorkers(ctx context.Context) (busy bool, err error) {
	const all = replicas * mailWorkers
	for deadline := time.Now().Add(maxWait / 3); time.Now().Before(deadline); {
		sys.mail.SetFault(mailserver.Fault{HoldRcpt: true})
		for soon := time.Now().Add(3 * time.Second); time.Now().Before(soon); {
			if sys.mail.Held() == all {
				return true, nil
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return false, err
			}
		}
	}
	sys.reportViolation("P5", "%d of %d workers have a message, %s after the last reset", sys.mail.Held(), all, maxWait/3)
	return false, nil
}
