package main

import (
	"context"
	"time"

	"example.com/transactional-outbox/chaos/mailserver"
	"example.com/transactional-outbox/internal/servertest"
)

func (y *system) refuseMail(ctx context.Context) error {
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

func (y *system) rejectMail(ctx context.Context) error {
	y.allowed.Rejected = true
	return y.feelAtMost(ctx, mailserver.Mood{Code: 550, Times: 6})
}

func (y *system) dropMail(ctx context.Context) error {
	for range 3 {
		if err := y.feelAtMost(ctx, mailserver.Mood{Drop: true, Times: 3}); err != nil {
			return err
		}
		y.allowed.Mails += 3
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
