package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

// grace is how long what a vanished machine had in hand may stay undone.
const grace = 75 * time.Second

// loseMachine takes the network from a consumer that is in a transaction, and then ends
// it. The server sees a transaction that somebody has left open, with its rows locked.
func (y *system) loseMachine(ctx context.Context) error {
	database, broker := y.notifyToDB[0], y.notifyToBroker[0]
	defer database.Resume()
	defer broker.Resume()
	for open := 0; open == 0; {
		database.Resume()
		if err := y.aMoment(ctx, 400*time.Millisecond); err != nil {
			return err
		}
		database.Stall()
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if err := y.notificationDB.QueryRow(ctx, frozenSQL).Scan(&open); err != nil {
			return err
		}
	}
	broker.Stall()
	lost := y.notifications[0]
	if err := y.kill(ctx, lost); err != nil {
		return err
	}
	y.excuseDeath(lost)
	next := y.newNotifications(1, nil) // by ways that work
	next.name, next.log = notificationService+" 3", filepath.Join(y.logs, notificationService+"-3")
	y.notifications[0] = next
	return errors.Join(next.start(ctx), y.awaitOverdue(ctx))
}

// awaitOverdue wants every event that is published by now to have its effect within the
// grace, while the machine is still gone.
func (y *system) awaitOverdue(ctx context.Context) error {
	published, err := y.published(ctx)
	if err != nil {
		return err
	}
	return y.awaitEffects(ctx, published, grace, "P5", "after their consumer's machine was gone")
}
