package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/services"
)

// kill kills a replica, and counts the fault if the replica was running.
func (sys *system) kill(ctx context.Context, r *replica) error {
	killed, err := r.kill(ctx)
	if killed {
		sys.injected++
	}
	return err
}

// allowMailRepeats permits repeats of the e-mails that a process had in flight when it died. Only a
// death, or a lost answer of the mail server, may repeat an e-mail. The mail server counts the
// latter.
func (sys *system) allowMailRepeats(r *replica) {
	sys.allowed.Mails += r.mailsInFlight()
	sys.allowed.MailsEach++
}

// randomReplica returns a random replica.
func (sys *system) randomReplica(rs []*replica) *replica { return rs[sys.random.IntN(len(rs))] }

func (sys *system) killOrders(ctx context.Context) error {
	return sys.killRandomly(ctx, sys.orderServices, func(*replica) { sys.allowed.Duplicates += inFlight })
}

// killNotifications kills them while the mail connections are busy.
func (sys *system) killNotifications(ctx context.Context) error {
	sys.mail.SetFault(mailserver.Fault{DataDelay: 200 * time.Millisecond})
	defer sys.mail.SetFault(mailserver.Fault{})
	return sys.killRandomly(ctx, sys.notificationServices, sys.allowMailRepeats)
}

func (sys *system) killRandomly(ctx context.Context, of []*replica, allow func(*replica)) error {
	for range 4 {
		if err := sys.sleepRandom(ctx, sys.scaled(1500*time.Millisecond)); err != nil {
			return err
		}
		victim := sys.randomReplica(of)
		if err := sys.kill(ctx, victim); err != nil {
			return err
		}
		allow(victim)
		if err := sys.sleepRandom(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := victim.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (sys *system) crashOrders(ctx context.Context) error {
	for _, point := range []string{"relay.claimed", "relay.confirmed", "relay.marked"} {
		if err := sys.crashAt(ctx, sys.randomReplica(sys.orderServices), point); err != nil {
			return err
		}
		sys.allowed.Duplicates += inFlight
	}
	return nil
}

func (sys *system) crashNotifications(ctx context.Context) error {
	for _, point := range []string{
		"consumer.arrived", "effect.recorded", "effect.committed", "consumer.handled", "relay.claimed", "relay.confirmed", "relay.marked",
	} {
		if err := sys.crashNotification(ctx, point); err != nil {
			return err
		}
	}
	// Only a message that fails because of itself is copied to a retry queue.
	return sys.refusingOrders(ctx, 5, func() error { return sys.crashNotification(ctx, "consumer.copied") })
}

func (sys *system) crashNotification(ctx context.Context, point string) error {
	r := sys.randomReplica(sys.notificationServices)
	sys.allowMailRepeats(r)
	return sys.crashAt(ctx, r, point)
}

// crashAt replaces a replica by one that kills itself at a crash point, waits until it has, and
// starts the usual one again.
func (sys *system) crashAt(ctx context.Context, r *replica, point string) error {
	if err := sys.stopReplica(ctx, r); err != nil {
		return err
	}
	if err := r.launch(r.programIn(crashing), "CRASH_AT="+point); err != nil {
		return err
	}
	_ = r.awaitReady(ctx) // it may have reached the point already
	reaching, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if err := r.process.Wait(reaching); err != nil {
		return fmt.Errorf("%s never reached %s: %w", r.name, point, err)
	}
	if !r.process.WasKilled() {
		return fmt.Errorf("%s ended before it reached %s: %s", r.name, point, r.process.State())
	}
	sys.injected++
	return r.start(ctx)
}

// stopReplica stops a replica, and records its exit.
func (sys *system) stopReplica(ctx context.Context, r *replica) error {
	exit, err := r.stop(ctx)
	if err == nil {
		sys.mu.Lock()
		defer sys.mu.Unlock()
		sys.exits = append(sys.exits, exit)
	}
	return err
}

func (sys *system) stopConsumers(ctx context.Context) (err error) {
	for _, r := range sys.notificationServices {
		err = errors.Join(err, sys.stopReplica(ctx, r))
	}
	return err
}

func (sys *system) restartOneByOne(ctx context.Context) error {
	for range 2 {
		for _, r := range sys.allReplicas() {
			if err := errors.Join(sys.stopReplica(ctx, r), r.start(ctx)); err != nil {
				return err
			}
			sys.injected++
		}
	}
	return nil
}

// stopWhileMailing stops the consumers while each answer to DATA comes after 12 s. The e-mails in
// flight are finished, and not broken off: none is repeated.
func (sys *system) stopWhileMailing(ctx context.Context) error {
	const answerAfter = 12 * time.Second
	before := sys.mail.Injected()
	sys.mail.SetFault(mailserver.Fault{DataDelay: answerAfter})
	defer sys.mail.SetFault(mailserver.Fault{})
	for _, r := range sys.notificationServices {
		if err := sleep(ctx, 2*time.Second); err != nil {
			return err
		}
		if err := errors.Join(sys.stopReplica(ctx, r), r.start(ctx)); err != nil {
			return err
		}
	}
	sys.injected += sys.mail.Injected() - before
	return nil
}

// terminateWithHungDatabase stops replicas while nothing can be marked: neither confirmed events
// nor e-mails that were sent.
func (sys *system) terminateWithHungDatabase(ctx context.Context) error {
	sys.allowInFlight()
	sys.allowed.Mails += sys.notificationServices[0].mailsInHand()
	sys.allowed.MailsEach++
	for _, p := range sys.databaseProxies() {
		sys.injected += p.Open()
		p.Stall()
		defer p.Resume()
	}
	return errors.Join(sleep(ctx, sys.scaled(2*time.Second)), sys.stopOneOfEach(ctx))
}

// terminateWithHungBroker stops replicas while nothing is confirmed and no message comes.
func (sys *system) terminateWithHungBroker(ctx context.Context) error {
	sys.injected += countOpen(sys.brokerProxies())
	return sys.whileStalled(func() error {
		return errors.Join(sleep(ctx, sys.scaled(2*time.Second)), sys.stopOneOfEach(ctx))
	})
}

// vanishMachine stalls the connections of a consumer that is in a transaction, and kills it.
// PostgreSQL keeps the open transaction with its locked rows.
func (sys *system) vanishMachine(ctx context.Context) error {
	toDatabase, toBroker := sys.notifyToDB[0], sys.notifyToBroker[0]
	defer toDatabase.Resume()
	defer toBroker.Resume()
	for open := 0; open == 0; {
		toDatabase.Resume()
		if err := sys.sleepRandom(ctx, 400*time.Millisecond); err != nil {
			return err
		}
		toDatabase.Stall()
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := sys.notificationDB.QueryRow(ctx, idleTransactionsSQL).Scan(&open); err != nil {
			return err
		}
	}
	toBroker.Stall()
	lost := sys.notificationServices[0]
	if err := sys.kill(ctx, lost); err != nil {
		return err
	}
	sys.allowMailRepeats(lost)
	next := sys.newNotificationService(1, nil) // with working connections
	next.name, next.log = services.Notifications+" 3", filepath.Join(sys.logs, services.Notifications+"-3")
	sys.notificationServices[0] = next
	return errors.Join(next.start(ctx), sys.requireAllEffects(ctx, "P5", "after their consumer's machine vanished"))
}

// vanishDatabase makes the primary's machine silent until the end of the scenario, and promotes the
// standby.
func (sys *system) vanishDatabase(ctx context.Context) error {
	sys.allowLostMarks()
	sys.vanish(append(sys.standby.hosts[0], sys.standby.replication)...)
	return errors.Join(sleep(ctx, noticeTime), sys.promote(ctx), sys.requireWork(ctx))
}
