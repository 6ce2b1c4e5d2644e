package main

import (
	"context"
	"fmt"
)

var killConsumer = experiment{
	name:    "kill-consumer",
	breaks:  "Kills notification-service after it has sent an e-mail, and before it marks the e-mail sent.",
	promise: "the effect is recorded exactly once (P5). Only in this case may an e-mail be repeated, with the same Message-ID (P6).",
	description: `A trigger delays the statement that marks the e-mail sent in the service's outbox, and the service is
killed there. You see that the e-mail is sent again when the lease of the dead relay has ended
(RELAY_LEASE, 20 s). SMTP has no transactions, so this cannot be prevented. But mail programs can
recognise the repeat by its Message-ID.`,
	watch:  "http://localhost:4101/ shows the e-mail that the dead relay holds, until its lease ends",
	result: "one effect. The one e-mail in flight was repeated, with the same Message-ID.",
	run: func(ctx context.Context, l *lab) error {
		if err := l.killBeforeTheMarkOfTheEmail(ctx); err != nil {
			return err
		}
		if err := l.awaitSecondSending(ctx); err != nil {
			return err
		}
		return l.verifyRepeat(ctx)
	},
}

func (l *lab) killBeforeTheMarkOfTheEmail(ctx context.Context) error {
	l.step("hold back the statement that marks the next e-mail sent")
	release, err := l.hold(ctx, l.notificationDB, "outbox_published", l.isMine())
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
	l.observe("its message is acknowledged, and its e-mail is sent; in the outbox it is in_progress")
	l.step("kill -9 notification-service, release the statement, start it again")
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
		return fmt.Sprintf("e-mails: %d, marked sent: %d", t.emails, t.sent), nil
	}
	return "", err
}

func (l *lab) awaitSecondSending(ctx context.Context) error {
	var lease int
	if err := l.notifications.QueryRow(ctx, leaseSQL, l.placed).Scan(&lease); err != nil {
		return err
	}
	l.step("wait until the dead relay's lease ends, %d s from now", lease)
	return l.await(ctx, seconds(lease)+maxWait, func(ctx context.Context) (string, error) {
		t, err := l.readOrders(ctx)
		if err != nil || t.sent == 1 {
			return "", err
		}
		err = l.notifications.QueryRow(ctx, leaseSQL, l.placed).Scan(&lease)
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
	l.requireEqual("message ids in the inbox", t.recorded, 1)
	l.requireEqual("e-mails in the outbox", t.appended, 1)
	l.requireEqual("e-mails with its Message-ID", t.emails, 2)
	return nil
}
