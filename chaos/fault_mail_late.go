package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/chaos/mailserver"
)

// late is how long a mail server may look at an e-mail after the dot, and longer than an
// impatient client waits. The RFC asks for ten minutes: 5321, 4.5.3.2.6.
const late = 25 * time.Second

// answerLate answers so late for some e-mails, while others go on.
func (y *system) answerLate(ctx context.Context) error {
	const several = replicas*mailWorkers - 2
	before := y.mail.Misbehaved()
	y.mail.Feel(mailserver.Mood{Late: y.scaled(late), Times: several})
	err := sleep(ctx, y.scaled(late)+3*time.Second)
	y.injected += y.mail.Misbehaved() - before
	return err
}

// restartWhileMailing restarts PostgreSQL while workers wait for the answer to an e-mail.
// The answer comes when the database is away: that they are sent cannot be written down
// for a while.
func (y *system) restartWhileMailing(ctx context.Context) error {
	y.excuseForgotten()
	y.mail.Feel(mailserver.Mood{HoldAtDot: true})
	defer y.mail.Feel(mailserver.Mood{})
	if err := y.awaitHeld(ctx); err != nil {
		return err
	}
	held := y.mail.Held()
	if err := y.postgres.Stop(ctx); err != nil {
		return err
	}
	if !y.postgres.Running() {
		y.injected += held
	}
	y.mail.Feel(mailserver.Mood{})
	return errors.Join(sleep(ctx, 1500*time.Millisecond), y.postgres.Start(ctx), sleep(ctx, y.scaled(2*time.Second)))
}

// awaitHeld waits until all workers have an e-mail at the dot, or for as long as any may
// need to get there.
func (y *system) awaitHeld(ctx context.Context) error {
	for soon := time.Now().Add(5 * time.Second); time.Now().Before(soon) && y.mail.Held() < replicas*mailWorkers; {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
