package main

import (
	"context"
	"fmt"
)

var killConsumer = experiment{
	name:    "kill-consumer",
	breaks:  "Kills notification-service after it has sent an e-mail, and before it marks the e-mail sent and acknowledges the message.",
	promise: "the effect is recorded exactly once (P5). Only in this case may an e-mail be repeated, with the same Message-ID (P6).",
	description: `A trigger delays the UPDATE that marks the notification sent, and the service is killed there.
You see that the broker delivers the message again, and that the e-mail is sent again when the
lease of the dead process has ended (at most a minute; until then, the message waits in the
retry queue of 30 s). SMTP has no transactions, so this cannot be prevented. But mail programs
can recognise the repeat by its Message-ID.`,
	watch:  "http://localhost:4101/ shows the message in a retry queue, and what is consumed",
	result: "one notification. The one e-mail in flight was repeated, with the same Message-ID.",
	run: func(ctx context.Context, l *lab) error {
		if err := l.killBeforeTheAck(ctx); err != nil {
			return err
		}
		if err := l.awaitSecondSending(ctx); err != nil {
			return err
		}
		return l.verifyRepeat(ctx)
	},
}

func (l *lab) killBeforeTheAck(ctx context.Context) error {
	l.step("hold back the UPDATE that marks the next notification sent")
	release, err := l.hold(ctx, l.notificationDB, "notifications",
		fmt.Sprintf("NEW.status = 'sent' AND NEW.recipient = '%s'", l.customer))
	if err != nil {
		return err
	}
	l.step("place an order")
	if err := l.place(ctx, 1); err != nil {
		return err
	}
	if err := l.await(ctx, maxWait, l.mailedAndHeld); err != nil {
		return err
	}
	l.observe("its e-mail is sent; the notification is still sending, and the message is not acknowledged")
	l.step("kill -9 notification-service, release the UPDATE, start it again")
	restart, err := l.crash(ctx, notificationService)
	if err != nil {
		return err
	}
	if err := release(ctx); err != nil {
		return err
	}
	return restart(ctx)
}

func (l *lab) mailedAndHeld(ctx context.Context) (missing string, err error) {
	waits, err := held(ctx, l.notifications)
	if err != nil {
		return "", err
	}
	t, err := l.readOrders(ctx)
	if err == nil && (!waits || t.emails == 0) {
		return fmt.Sprintf("e-mails: %d, notifications marked sent: %d", t.emails, t.sent), nil
	}
	return "", err
}

// mailLeaseSQL returns the rest of the dead process's lease, in seconds.
const mailLeaseSQL = `
SELECT coalesce(max(extract(epoch FROM lease_until - now())), 0)::int FROM notifications
WHERE order_id = ANY ($1::uuid[]) AND status = 'sending'`

func (l *lab) awaitSecondSending(ctx context.Context) error {
	var lease int
	if err := l.notifications.QueryRow(ctx, mailLeaseSQL, l.placed).Scan(&lease); err != nil {
		return err
	}
	l.step("wait until the dead process's lease ends, %d s from now, and the message leaves its retry queue", lease)
	return l.await(ctx, seconds(lease)+maxWait, func(ctx context.Context) (string, error) {
		t, err := l.readOrders(ctx)
		if err != nil || t.sent == 1 {
			return "", err
		}
		err = l.notifications.QueryRow(ctx, mailLeaseSQL, l.placed).Scan(&lease)
		return leaseStatus(lease), err
	})
}

func leaseStatus(lease int) string {
	if lease > 0 {
		return fmt.Sprintf("the lease ends in %d s", lease)
	}
	return "the lease has ended, and the e-mail has not been repeated yet"
}

func (l *lab) verifyRepeat(ctx context.Context) error {
	l.step("verify")
	t, err := l.readOrders(ctx)
	if err != nil {
		return err
	}
	l.requireEqual("message ids in the inbox", t.consumed, 1)
	l.requireEqual("notifications", t.notifications, 1)
	l.requireEqual("sent notifications", t.sent, 1)
	l.requireEqual("attempts to send the e-mail", t.sendings, 2)
	l.requireEqual("e-mails with its Message-ID", t.emails, 2)
	return nil
}
