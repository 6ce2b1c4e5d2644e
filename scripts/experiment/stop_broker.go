package main

import (
	"context"
	"errors"
)

var stopBroker = experiment{
	name:   "stop-broker",
	breaks: "Stops RabbitMQ, and places orders while it is away.",
	stake:  "orders are taken as before (P10); none of their events is lost, and none pays for the outage (P4).",
	shows: `You see the orders answered with 201, their events wait in the outbox, and go out when
the broker is back. It has to be a broker of this system's own: without Docker, start with
PRIVATE_SERVERS=1 make demo.`,
	kept: "orders were taken without the broker, and each was published and told of once when it came back.",
	run: func(ctx context.Context, l *lab) error {
		l.step("stop RabbitMQ")
		startAgain := l.undoing(func(ctx context.Context) error {
			_, err := command(ctx, l.start, rabbitMQ)
			if errors.Is(err, errNotTried) {
				return nil // neither was it stopped
			}
			if err != nil {
				return err
			}
			return l.awaitReady(ctx, notificationService) // it may be in a pause between two tries
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
	l.see("%d answers, each 201", n)
	backlog, err := metric(ctx, orderService, "outbox_backlog")
	if err != nil {
		return err
	}
	t, err := l.look(ctx)
	if err != nil {
		return err
	}
	l.see("outbox_backlog %d", backlog)
	l.see("their events: %d wait, %d are published, %d have failed; attempts spent: %d", t.waiting+t.inProgress, t.published, t.failed, t.attempts)
	return nil
}

func (l *lab) verifyOutage(ctx context.Context) error {
	if err := l.awaitArrival(ctx); err != nil {
		return err
	}
	l.step("verify")
	t, err := l.look(ctx)
	if err != nil {
		return err
	}
	l.wantOneEach(t)
	l.want("attempts that the outage has cost", t.attempts, 0)
	return nil
}
