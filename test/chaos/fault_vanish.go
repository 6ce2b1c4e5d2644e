package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

// graceTime is how long the messages of a vanished machine may take to have their effect.
const graceTime = 75 * time.Second

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
	next.name, next.log = notificationService+" 3", filepath.Join(sys.logs, notificationService+"-3")
	sys.notificationServices[0] = next
	return errors.Join(next.start(ctx), sys.requireOverdueEffects(ctx))
}

// requireOverdueEffects requires that every published event has its effect within the grace time,
// while the machine is still gone.
func (sys *system) requireOverdueEffects(ctx context.Context) error {
	published, err := sys.published(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = sys.requireEffects(ctx, published, graceTime, "P5", "after their consumer's machine vanished")
	sys.takeover = time.Since(began)
	return err
}
