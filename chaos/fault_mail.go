package main

import (
	"context"
	"strings"
	"time"

	"example.com/transactional-outbox/chaos/broker"
	"example.com/transactional-outbox/chaos/mailserver"
	"example.com/transactional-outbox/internal/servertest"
)

// refuseMail cuts the connections when no e-mail is at its end: an answer that is lost would
// be another fault.
func (y *system) refuseMail(ctx context.Context) error {
	y.mail.Feel(mailserver.Mood{Hold: true})
	defer y.mail.Feel(mailserver.Mood{})
	if err := sleep(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	return y.refuse(ctx, []*servertest.Proxy{y.notifyToMail}, y.scaled(6*time.Second))
}

func (y *system) slowMail(ctx context.Context) error {
	return y.feel(ctx, mailserver.Mood{Delay: 2 * time.Second})
}

// deferMail refuses few enough that none is refused four times, which would spend its
// retries.
func (y *system) deferMail(ctx context.Context) error {
	for range 3 {
		if err := y.feelAtMost(ctx, mailserver.Mood{Code: 451, Times: 8}); err != nil {
			return err
		}
	}
	return nil
}

// busyMailboxes refuses so many recipients for now, or all. It is their own trouble: their
// messages go to the retry queues.
func busyMailboxes(times int) mailserver.Mood {
	return mailserver.Mood{Code: 450, Enhanced: [3]int{4, 2, 1}, Times: times}
}

// rejectMail refuses a few recipients, as unknown. One kind of them it takes when the dead
// letters are replayed; the other it never takes.
func (y *system) rejectMail(ctx context.Context) error {
	return y.feelAtMost(ctx, unknownUser(func(to string) bool { return isMoved(to) || isGone(to) }))
}

func unknownUser(only func(to string) bool) mailserver.Mood {
	return mailserver.Mood{Code: 550, Enhanced: [3]int{5, 1, 1}, Only: only}
}

func isMoved(to string) bool { return strings.HasSuffix(strings.TrimSuffix(to, "@load.example"), "5") }

func isGone(to string) bool { return strings.HasSuffix(strings.TrimSuffix(to, "@load.example"), "10") }

// replayRefused replays what was refused, and excuses those who are refused to the end.
func (y *system) replayRefused(ctx context.Context) error {
	y.mail.Feel(unknownUser(isGone))
	y.allowed.Refused = map[string]bool{}
	for _, to := range y.mail.Refused() {
		y.allowed.Refused[to] = isGone(to)
	}
	if err := y.awaitRejected(ctx); err != nil {
		return err
	}
	return y.operate(ctx, y.notifications[0], "dlq", "replay", "--all")
}

// awaitRejected returns when every e-mail that was refused is a dead letter, or when that
// takes too long: the checker then finds what is missing.
func (y *system) awaitRejected(ctx context.Context) error {
	for deadline := time.Now().Add(mendTime); time.Now().Before(deadline); {
		rejected := 0
		err := y.notificationDB.QueryRow(ctx, "SELECT count(*) FROM notifications WHERE status = 'rejected'").Scan(&rejected)
		if err != nil {
			return err
		}
		dead, err := y.broker.Ready(ctx, broker.DeadLetters)
		if err != nil || dead >= rejected {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (y *system) dropMail(ctx context.Context) error {
	for range 3 {
		if err := y.feelAtMost(ctx, mailserver.Mood{Drop: true, Times: 3}); err != nil {
			return err
		}
	}
	return nil
}

// feel gives the mail server a mood for a while.
func (y *system) feel(ctx context.Context, m mailserver.Mood) error {
	defer y.mail.Feel(mailserver.Mood{})
	return y.feelAtMost(ctx, m)
}

// feelAtMost gives it a mood that ends by itself.
func (y *system) feelAtMost(ctx context.Context, m mailserver.Mood) error {
	before := y.mail.Misbehaved()
	y.mail.Feel(m)
	err := y.aMoment(ctx, y.scaled(5*time.Second))
	y.injected += y.mail.Misbehaved() - before
	return err
}
