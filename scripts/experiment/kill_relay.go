package main

import (
	"context"
	"fmt"
)

var killRelay = experiment{
	name:   "kill-relay",
	breaks: "Kills order-service when the broker has confirmed an event, and before it is marked published.",
	stake:  "the event is not lost: it is delivered at least once, and has its effect exactly once (P5, P12).",
	shows: `A trigger makes the UPDATE wait that marks the event, and the kill hits the service there.
You see the event published a second time when the dead relay's lease has ended (RELAY_LEASE,
a minute), and notification-service take the second copy for what it is.`,
	kept: "the event came twice, and was told of once.",
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

// duplicates counts the copies that had no effect.
const duplicates = "consumer_duplicates_total"

func (l *lab) killBeforeTheMark(ctx context.Context) error {
	l.step("hold back the UPDATE that marks the next event published")
	release, err := l.hold(ctx, l.orderDB, "outbox_events",
		fmt.Sprintf("NEW.status = 'published' AND NEW.payload->>'customer_email' = '%s'", l.customer))
	if err != nil {
		return err
	}
	l.step("place an order")
	if err := l.place(ctx, 1); err != nil {
		return err
	}
	if err := l.await(ctx, patience, l.confirmedAndHeld); err != nil {
		return err
	}
	l.see("the broker has confirmed its event, and the e-mail is sent; in the outbox it is in_progress")
	l.step("kill -9 order-service, release the UPDATE, start it again")
	restart, err := l.crash(ctx, orderService)
	if err != nil {
		return err
	}
	if err := release(ctx); err != nil {
		return err
	}
	return restart(ctx)
}

// confirmedAndHeld: only what is confirmed is marked.
func (l *lab) confirmedAndHeld(ctx context.Context) (missing string, err error) {
	waits, err := held(ctx, l.orders)
	if err != nil {
		return "", err
	}
	t, err := l.look(ctx)
	if err == nil && (!waits || t.inProgress == 0 || t.sent == 0 || t.letters == 0) {
		return fmt.Sprintf("the event is marked: %t, the e-mail sent: %t", t.published > 0, t.sent > 0), nil
	}
	return "", err
}

// relayLeaseSQL is how many seconds the dead relay still has the event.
const relayLeaseSQL = `
SELECT coalesce(max(extract(epoch FROM available_at - now())), 0)::int FROM outbox_events
WHERE aggregate_type = 'order' AND aggregate_id = ANY ($1) AND status = 'in_progress'`

func (l *lab) awaitSecondPublish(ctx context.Context, before int) error {
	var lease int
	if err := l.orders.QueryRow(ctx, relayLeaseSQL, l.placed).Scan(&lease); err != nil {
		return err
	}
	l.see("the event is in_progress still: nobody knows that it is published")
	l.step("wait for the end of the dead relay's lease, %d s from now", lease)
	return l.await(ctx, seconds(lease)+patience, func(ctx context.Context) (string, error) {
		if err := l.orders.QueryRow(ctx, relayLeaseSQL, l.placed).Scan(&lease); err != nil || lease > 0 {
			return fmt.Sprintf("%d s to go", lease), err
		}
		t, err := l.look(ctx)
		if err != nil || t.published == 0 {
			return "the event is not published again", err
		}
		return l.missingCopies(ctx, before, 1)
	})
}

// missingCopies returns "" when so many copies have come, or when one has had an effect:
// then nobody counts it.
func (l *lab) missingCopies(ctx context.Context, before, copies int) (missing string, err error) {
	now, err := metric(ctx, notificationService, duplicates)
	if err != nil {
		return "", err
	}
	t, err := l.look(ctx)
	if err == nil && now < before+copies && t.twice == 0 {
		return fmt.Sprintf("%d of %d copies are known as duplicates", now-before, copies), nil
	}
	return "", err
}

// verifyNoSecondEffect wants so many copies to have come, and to have changed nothing.
func (l *lab) verifyNoSecondEffect(ctx context.Context, before, copies int) error {
	l.step("verify")
	now, err := metric(ctx, notificationService, duplicates)
	if err != nil {
		return err
	}
	t, err := l.look(ctx)
	if err != nil {
		return err
	}
	l.wantAtLeast("more in "+duplicates, now-before, copies)
	l.wantOneEach(t)
	return nil
}
