package main

import (
	"context"
	"fmt"
)

var killConsumer = experiment{
	name:   "kill-consumer",
	breaks: "Kills notification-service when the e-mail is out, and before that is written down and the message acknowledged.",
	stake:  "the effect is recorded exactly once (P5); here, and only here, an e-mail may come again, with the same Message-ID (P6).",
	shows: `A trigger makes the UPDATE wait that marks the notification sent, and the kill hits the service
there. You see the broker deliver the message again, and the e-mail go out once more when the dead
process's lease has ended (a minute; the message waits in the retry queue of 30 s meanwhile).
SMTP has no transactions: nobody can prevent this, but the Message-ID tells mail programs.`,
	kept: "one notification; the one e-mail of which nobody could know came again, with the same Message-ID.",
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
	if err := l.await(ctx, patience, l.mailedAndHeld); err != nil {
		return err
	}
	l.see("its e-mail is sent; the notification is still sending, and the message is not acknowledged")
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
	t, err := l.look(ctx)
	if err == nil && (!waits || t.letters == 0) {
		return fmt.Sprintf("e-mails: %d, notifications marked sent: %d", t.letters, t.sent), nil
	}
	return "", err
}

// mailLeaseSQL is how many seconds the dead process still has the e-mail.
const mailLeaseSQL = `
SELECT coalesce(max(extract(epoch FROM lease_until - now())), 0)::int FROM notifications
WHERE order_id = ANY ($1::uuid[]) AND status = 'sending'`

func (l *lab) awaitSecondSending(ctx context.Context) error {
	var lease int
	if err := l.notifications.QueryRow(ctx, mailLeaseSQL, l.placed).Scan(&lease); err != nil {
		return err
	}
	l.step("wait for the end of the dead process's lease, %d s from now, and for the message in its retry queue", lease)
	return l.await(ctx, seconds(lease)+patience, func(ctx context.Context) (string, error) {
		t, err := l.look(ctx)
		if err != nil || t.sent == 1 {
			return "", err
		}
		err = l.notifications.QueryRow(ctx, mailLeaseSQL, l.placed).Scan(&lease)
		return inWords(lease), err
	})
}

func inWords(lease int) string {
	if lease > 0 {
		return fmt.Sprintf("%d s to go", lease)
	}
	return "the lease has ended, and the e-mail is not sent again yet"
}

func (l *lab) verifyRepeat(ctx context.Context) error {
	l.step("verify")
	t, err := l.look(ctx)
	if err != nil {
		return err
	}
	l.want("message ids in the inbox", t.consumed, 1)
	l.want("notifications", t.notifications, 1)
	l.want("that are sent", t.sent, 1)
	l.want("times that its sending began", t.sendings, 2)
	l.want("e-mails with its Message-ID", t.letters, 2)
	return nil
}
