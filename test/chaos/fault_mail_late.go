package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/chaos/mailserver"
)

// lateAnswer is longer than some clients wait for the answer to DATA. RFC 5321, 4.5.3.2.6, asks
// clients to wait for ten minutes.
const lateAnswer = 25 * time.Second

// delayMailAnswers delays the answer to some e-mails. The others go on.
func (sys *system) delayMailAnswers(ctx context.Context) error {
	const several = replicas*mailWorkers - 2
	before := sys.mail.Injected()
	sys.mail.SetFault(mailserver.Fault{DataDelay: sys.scaled(lateAnswer), Times: several})
	err := sleep(ctx, sys.scaled(lateAnswer)+3*time.Second)
	sys.injected += sys.mail.Injected() - before
	return err
}

// restartWhileMailing restarts PostgreSQL while workers wait for the answer to an e-mail. The
// answer comes while the database is down, so the workers cannot mark the e-mail sent at once.
func (sys *system) restartWhileMailing(ctx context.Context) error {
	sys.allowLostMarks()
	sys.mail.SetFault(mailserver.Fault{HoldData: true})
	defer sys.mail.SetFault(mailserver.Fault{})
	if err := sys.awaitHeld(ctx); err != nil {
		return err
	}
	held := sys.mail.Held()
	if err := sys.postgres.Stop(ctx); err != nil {
		return err
	}
	if !sys.postgres.Running() {
		sys.injected += held
	}
	sys.mail.SetFault(mailserver.Fault{})
	return errors.Join(sleep(ctx, 1500*time.Millisecond), sys.postgres.Start(ctx), sleep(ctx, sys.scaled(2*time.Second)))
}

// awaitHeld waits until all workers wait for the answer to DATA, at most 5 seconds.
func (sys *system) awaitHeld(ctx context.Context) error {
	for soon := time.Now().Add(5 * time.Second); time.Now().Before(soon) && sys.mail.Held() < replicas*mailWorkers; {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
