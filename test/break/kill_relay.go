package main

import (
	"context"
	"fmt"
)

var killRelay = experiment{
	name:    "kill-relay",
	breaks:  "Kills order-service after the broker has confirmed an event, and before the event is marked published.",
	promise: "the event is not lost: it is delivered at least once, and has its effect exactly once (P5, P12).",
	description: `A trigger delays the statement that marks the event, and the service is killed there. You see
that the event is published again when the lease of the dead relay has ended (RELAY_LEASE, a
minute), and that notification-service recognises the duplicate.`,
	watch:  "http://localhost:4100/ shows the events that the dead relay holds, until its lease ends",
	result: "the event was published twice, and had one effect.",
	run: func(ctx context.Context, l *lab) error {
		before, err := metric(ctx, notificationService, duplicates)
		if err != nil {
			return err
		}
		if err := l.killBeforeTheMark(ctx); err != nil {
			return err
		}
		if err := l.awaitSecondPublish(ctx, before); err != nil {
			return err
		}
		return l.verifyNoSecondEffect(ctx, before, 1)
	},
}

// duplicates is the counter of recognised duplicates.
const duplicates = "consumer_duplicates_total"

func (l *lab) killBeforeTheMark(ctx context.Context) error {
	l.step("hold back the statement that marks the next event published")
	release, err := l.hold(ctx, l.orderDB, "outbox_published", l.isMine())
	if err != nil {
		return err
	}
	l.step("place an order")
	if err := l.place(ctx, 1); err != nil {
		return err
	}
	if err := l.await(ctx, maxWait, l.confirmedAndHeld); err != nil {
		return err
	}
	l.observe("the broker has confirmed its event, and the e-mail is sent; in the outbox it is in_progress")
	l.step("kill -9 order-service, release the statement, start it again")
	restart, err := l.crash(ctx, orderService)
	if err != nil {
		return err
	}
	if err := release(ctx); err != nil {
		return err
	}
	return restart(ctx)
}

// isMine is true for the mark of an event, or of an e-mail, about an order of this run.
func (l *lab) isMine() string {
	return fmt.Sprintf("EXISTS (SELECT FROM outbox_events WHERE id = NEW.id AND outbox_text(payload)::json->>'customer_email' = '%s')", l.customer)
}

// confirmedAndHeld waits for the mark, which the relay writes after the confirm.
func (l *lab) confirmedAndHeld(ctx context.Context) (missing string, err error) {
	waits, err := held(ctx, l.orders)
	if err != nil {
		return "", err
	}
	t, err := l.readOrders(ctx)
	if err == nil && (!waits || t.inProgress == 0 || t.sent == 0 || t.emails == 0) {
		return fmt.Sprintf("the event is marked: %t, the e-mail sent: %t", t.published > 0, t.sent > 0), nil
	}
	return "", err
}

// leaseSQL returns the rest of a dead relay's lease, in seconds. Both services have a relay.
const leaseSQL = `
SELECT coalesce(max(extract(epoch FROM available_at - now())), 0)::int FROM outbox_status
WHERE aggregate = 'order' AND aggregate_id = ANY ($1) AND status = 'in_progress'`

func (l *lab) awaitSecondPublish(ctx context.Context, before int) error {
	var lease int
	if err := l.orders.QueryRow(ctx, leaseSQL, l.placed).Scan(&lease); err != nil {
		return err
	}
	l.observe("the event is still in_progress, although it is published")
	l.step("wait until the dead relay's lease ends, %d s from now", lease)
	return l.await(ctx, seconds(lease)+maxWait, func(ctx context.Context) (string, error) {
		if err := l.orders.QueryRow(ctx, leaseSQL, l.placed).Scan(&lease); err != nil || lease > 0 {
			return fmt.Sprintf("the lease ends in %d s", lease), err
		}
		t, err := l.readOrders(ctx)
		if err != nil || t.published == 0 {
			return "the event is not published again", err
		}
		return l.missingCopies(ctx, before, 1)
	})
}

// missingCopies returns "" when all copies have arrived. A copy with an effect also ends the wait,
// because the service does not count it.
func (l *lab) missingCopies(ctx context.Context, before, copies int) (missing string, err error) {
	now, err := metric(ctx, notificationService, duplicates)
	if err != nil {
		return "", err
	}
	t, err := l.readOrders(ctx)
	if err == nil && now < before+copies && t.repeated == 0 {
		return fmt.Sprintf("%d of %d copies are counted as duplicates", now-before, copies), nil
	}
	return "", err
}

// verifyNoSecondEffect requires that all copies have arrived without a second effect.
func (l *lab) verifyNoSecondEffect(ctx context.Context, before, copies int) error {
	l.step("verify")
	now, err := metric(ctx, notificationService, duplicates)
	if err != nil {
		return err
	}
	t, err := l.readOrders(ctx)
	if err != nil {
		return err
	}
	l.requireAtLeast("increase of "+duplicates, now-before, copies)
	l.requireOneEach(t)
	return nil
}
