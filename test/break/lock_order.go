package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var lockOrder = experiment{
	name:    "lock-order",
	breaks:  "Locks the row of one order in notification-service's database, for a minute and a half.",
	promise: "a message that cannot be handled stops no other, and is retried until it can (P9).",
	description: `A session holds the row of the order in order_progress. So the handler cannot record the order's next
event: its lock_timeout of 1 s ends each try. The database still takes rows of the inbox, so the
error is the message's own: a copy of it waits in the retry queue of 30 s, and then in that of 1 m.
You see that e-mails of other orders are sent meanwhile, and this one after the lock is gone.`,
	watch:  "http://localhost:4101/ shows the copy in notification-service.retry.30s, and then in .retry.1m",
	result: "the message was tried again after 30 s and after 1 m, the others went on, and its e-mail arrived when the lock was gone.",
	run: func(ctx context.Context, l *lab) error {
		before, err := metric(ctx, notificationService, retried)
		if err != nil {
			return err
		}
		release, err := l.lockTheOrder(ctx)
		if err != nil {
			return err
		}
		if err := l.awaitRetries(ctx, before); err != nil {
			return err
		}
		return l.verifyTheLateEmail(ctx, release)
	},
}

// retried is the counter of copies in the retry queues.
const retried = `consumer_messages_total{outcome="retried"}`

func (l *lab) lockTheOrder(ctx context.Context) (release func(context.Context) error, err error) {
	l.step("place an order, and wait for its e-mail")
	if err := errors.Join(l.place(ctx, 1), l.awaitArrival(ctx)); err != nil {
		return nil, err
	}
	l.step("lock its row of order_progress, and confirm the order")
	if release, err = l.lockRow(ctx, l.notificationDB, "SELECT FROM order_progress WHERE order_id = $1 FOR UPDATE", l.placed[0]); err != nil {
		return nil, err
	}
	return release, l.confirm(ctx, l.placed[0])
}

// lockRow holds the lock of one row until release is called, in a session of its own.
func (l *lab) lockRow(ctx context.Context, database, query, id string) (release func(context.Context) error, err error) {
	session, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	release = l.registerUndo(session.Close)
	if _, err := session.Exec(ctx, "BEGIN"); err != nil {
		return release, err
	}
	tag, err := session.Exec(ctx, query, id)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("order_progress has %d rows of the order, want 1", tag.RowsAffected())
	}
	return release, err
}

// awaitRetries waits for two copies of the message. Other orders are placed after the first one.
func (l *lab) awaitRetries(ctx context.Context, before int) error {
	if err := l.awaitRetry(ctx, before+1); err != nil {
		return err
	}
	l.observe("the handler's lock_timeout has ended its try; a copy waits in notification-service.retry.30s")
	l.step("place 5 other orders, and wait for their e-mails")
	began := time.Now()
	if err := l.place(ctx, 5); err != nil {
		return err
	}
	err := l.await(ctx, maxWait, func(ctx context.Context) (string, error) {
		t, err := l.readOrders(ctx)
		if err == nil && t.emails < len(l.placed) {
			return fmt.Sprintf("%d of %d e-mails have arrived", t.emails, len(l.placed)), nil
		}
		return "", err
	})
	if err != nil {
		return err
	}
	l.observe("they have arrived within %s", time.Since(began).Round(time.Millisecond))
	l.step("wait for the second try, after 30 s")
	if err := l.awaitRetry(ctx, before+2); err != nil {
		return err
	}
	l.observe("it has failed as well; a copy waits in notification-service.retry.1m")
	return nil
}

func (l *lab) awaitRetry(ctx context.Context, want int) error {
	return l.await(ctx, maxWait, func(ctx context.Context) (string, error) {
		n, err := metric(ctx, notificationService, retried)
		if err != nil || n >= want {
			return "", err
		}
		return "the message waits for its next try", nil
	})
}

func (l *lab) verifyTheLateEmail(ctx context.Context, release func(context.Context) error) error {
	l.step("end the session with the lock, and wait for the third try, after 1 m")
	if err := errors.Join(release(ctx), l.awaitArrival(ctx)); err != nil {
		return err
	}
	l.step("verify")
	t, err := l.readOrders(ctx)
	if err != nil {
		return err
	}
	l.requireOneEach(t)
	return nil
}
