package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/chaos/load"
	"example.com/transactional-outbox/test/chaos/mailserver"
)

// lateAnswer is longer than some clients wait for the answer to DATA. RFC 5321, 4.5.3.2.6, asks
// clients to wait for ten minutes.
const lateAnswer = 25 * time.Second

// delayMailAnswers delays the answer to the e-mails of one domain. The others go on.
func (sys *system) delayMailAnswers(ctx context.Context) error {
	return sys.breakDomain(ctx, load.Domain(0), 0, mailserver.Fault{DataDelay: sys.scaled(lateAnswer)}, lateAnswer+3*time.Second)
}

// stopWhileMailing stops the consumers while each answer to DATA comes after 12 s. The e-mails in
// flight are finished, and not broken off: none is repeated.
func (sys *system) stopWhileMailing(ctx context.Context) error {
	const answerAfter = 12 * time.Second
	sys.mail.SetFault(mailserver.Fault{DataDelay: answerAfter})
	defer sys.mail.SetFault(mailserver.Fault{})
	for _, r := range sys.notificationServices {
		if err := sleep(ctx, 2*time.Second); err != nil {
			return err
		}
		before := sys.mail.Injected()
		if err := sys.stopReplica(ctx, r); err != nil {
			return err
		}
		sys.injected += before
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restartWhileMailing restarts PostgreSQL while all connections wait for the answer to an e-mail.
// The answer comes while the database is down, so the e-mails cannot be marked sent at once.
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

// awaitHeld waits until all connections wait for the answer to DATA, at most 5 seconds.
func (sys *system) awaitHeld(ctx context.Context) error {
	for soon := time.Now().Add(5 * time.Second); time.Now().Before(soon) && sys.mail.Held() < replicas*mailConnections; {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
