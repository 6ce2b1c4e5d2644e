package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/test/servicelog"
	"example.com/transactional-outbox/test/suite"
)

// noticeTime is how long a failover manager takes until it promotes the standby.
const noticeTime = 2 * time.Second

// replicationDelay is how much later the standby gets everything. A commit that did not wait for
// the standby would be lost.
const replicationDelay = 200 * time.Millisecond

// failOverTwice kills the primary and promotes its standby. Then the old primary follows the new
// one, and the same happens in the other direction.
func (sys *system) failOverTwice(ctx context.Context) error {
	err := sys.failOver(ctx)
	if err == nil {
		err = errors.Join(sys.followBack(ctx), sys.postgres.Synchronous(ctx, standbyName), sys.sleepRandom(ctx, sys.scaled(3*time.Second)))
	}
	if err == nil {
		err = sys.failOver(ctx)
	}
	return errors.Join(err, sys.sleepRandom(ctx, sys.scaled(2*time.Second)))
}

// takeoverTime is how long the services may take to work again after a promotion, if the old
// primary refuses connections.
const takeoverTime = 15 * time.Second

func (sys *system) failOver(ctx context.Context) error {
	sys.allowLostMarks()
	sys.standby.replication.Slow(replicationDelay)
	if err := sys.sleepRandom(ctx, sys.scaled(2*time.Second)); err != nil {
		return err
	}
	return sys.takeOver(ctx)
}

// failOverAfterStall kills the primary when its standby has taken nothing for longer than a request
// may last. Meanwhile the clients have repeated their requests. No order may be acknowledged in
// this time.
func (sys *system) failOverAfterStall(ctx context.Context) error {
	sys.allowLostMarks()
	if err := sys.sleepRandom(ctx, sys.scaled(2*time.Second)); err != nil {
		return err
	}
	sys.standby.replication.Stall()
	sys.injected++
	if err := sleep(ctx, 10*time.Second); err != nil {
		return err
	}
	return errors.Join(sys.takeOver(ctx), sys.sleepRandom(ctx, sys.scaled(2*time.Second)))
}

// takeOver kills the primary, and promotes its standby.
func (sys *system) takeOver(ctx context.Context) error {
	if err := sys.postgres.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	if !sys.postgres.Running() {
		sys.injected++
	}
	if err := errors.Join(sleep(ctx, noticeTime), sys.promote(ctx)); err != nil {
		return err
	}
	return sys.requireWork(ctx, takeoverTime)
}

// requireWork requires that within a time each replica works on the new primary: it takes orders,
// publishes events and sends e-mails.
func (sys *system) requireWork(ctx context.Context, within time.Duration) error {
	return sys.requireWorkSince(ctx, time.Now(), within)
}

func (sys *system) requireWorkSince(ctx context.Context, promoted time.Time, within time.Duration) error {
	for {
		idle := sys.idleReplica(promoted)
		if idle == "" {
			break
		}
		if time.Since(promoted) > within {
			sys.reportViolation("P4", "%s, %s after the promotion", idle, within)
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	took := time.Since(promoted)
	suite.Progress("  every replica works %.1f s after the promotion", took.Seconds())
	sys.takeover = max(sys.takeover, took)
	return nil
}

// idleReplica returns what a replica has not done since a time, or "".
func (sys *system) idleReplica(since time.Time) string {
	for _, r := range sys.orderServices {
		if sys.load.Answered(r.apiURL()).Before(since) {
			return fmt.Sprintf("%s has taken no order", r.name)
		}
		if _, err := r.findSince(servicelog.MessagePublished, since); err != nil {
			return fmt.Sprintf("%s has published nothing", r.name)
		}
	}
	for _, r := range sys.notificationServices {
		if _, err := r.findSince(servicelog.MessagePublished, since); err != nil {
			return fmt.Sprintf("%s has sent no e-mail", r.name)
		}
	}
	return ""
}
