package main

import (
	"context"
	"errors"
)

var stopBroker = experiment{
	name:    "stop-broker",
	breaks:  "Stops RabbitMQ, and places orders while it is down.",
	promise: "orders are placed as before (P10). No event is lost, and no event spends an attempt (P4).",
	description: `You see that the orders are answered with 201, and that their events wait in the outbox until the
broker is back. This requires a private broker: without Docker, start the system with
PRIVATE_SERVERS=1 make demo.`,
	watch:  "http://localhost:4100/ shows that the relay waits for the broker, and the events that wait",
	result: "orders were placed without the broker. After its return, each was published and e-mailed once.",
	run: func(ctx context.Context, l *lab) error {
		l.step("stop RabbitMQ")
		startAgain := l.registerUndo(func(ctx context.Context) error {
			_, err := command(ctx, l.start, rabbitMQ)
			if errors.Is(err, errNotTried) {
				return nil // it was not stopped either
			}
			if err != nil {
				return err
			}
			return l.awaitReady(ctx, notificationService) // it may wait before its next attempt to connect
		})
		if _, err := command(ctx, l.stop, rabbitMQ); err != nil {
			return err
		}
		if err := l.placeInTheOutage(ctx, 20); err != nil {
			return err
		}
		l.step("start RabbitMQ again")
		if err := startAgain(ctx); err != nil {
			return err
		}
		return l.verifyOutage(ctx)
	},
}

func (l *lab) placeInTheOutage(ctx context.Context, n int) error {
	l.step("place %d orders", n)
	if err := l.place(ctx, n); err != nil {
		return err
	}
	l.observe("%d answers, each 201", n)
	backlog, err := metric(ctx, orderService, "outbox_backlog")
	if err != nil {
		return err
	}
	t, err := l.readOrders(ctx)
	if err != nil {
		return err
	}
	l.observe("outbox_backlog %d", backlog)
	l.observe("their events: %d wait, %d are published, %d have failed; attempts spent: %d", t.waiting+t.inProgress, t.published, t.failed, t.attempts)
	return nil
}

func (l *lab) verifyOutage(ctx context.Context) error {
	if err := l.awaitArrival(ctx); err != nil {
		return err
	}
	l.step("verify")
	t, err := l.readOrders(ctx)
	if err != nil {
		return err
	}
	l.requireOneEach(t)
	l.requireEqual("attempts spent during the outage", t.attempts, 0)
	return nil
}
