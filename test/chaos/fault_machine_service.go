package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"example.com/transactional-outbox/test/suite"
)

// claimGraceTime is how long the events of a relay whose machine vanished may wait for another
// relay. The lease of the vanished relay ends, and PostgreSQL ends its open transaction after 10 s.
// The other 5 s are for the work itself.
const claimGraceTime = lease + 15*time.Second

// vanishOrders makes the machine of an order-service silent while its relay holds a claimed batch
// and, if possible, one of its transactions is open.
func (sys *system) vanishOrders(ctx context.Context) error {
	lost := sys.orderServices[0]
	if err := sys.stallInTransaction(ctx, lost); err != nil {
		return err
	}
	if err := sys.kill(ctx, lost); err != nil { // the stalled proxies keep its connections open
		return err
	}
	sys.allowed.Duplicates += inFlight
	next := sys.newOrderService(1, nil) // with working connections
	next.name, next.log = orderService+" 3", filepath.Join(sys.logs, orderService+"-3")
	sys.orderServices[0] = next
	return errors.Join(sys.requireClaimed(ctx), next.start(ctx))
}

// stallInTransaction stalls a replica's connections when its relay holds a claim and one of its
// sessions is in a transaction. The transactions are short, so after some tries the claim is
// enough.
func (sys *system) stallInTransaction(ctx context.Context, r *replica) error {
	database, broker := sys.ordersToDB[0], sys.ordersToBroker[0]
	const triesForBoth = 10
	sys.allowed.Refusals = true // there may be no answer in time
	for try := range 3 * triesForBoth {
		broker.Stall()
		if err := sys.sleepRandom(ctx, 400*time.Millisecond); err != nil {
			return err
		}
		database.Stall()
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		var open, claimed int
		err := errors.Join(
			sys.orderDB.QueryRow(ctx, idleTransactionsSQL).Scan(&open),
			sys.orderDB.QueryRow(ctx, claimedBy(r)).Scan(&claimed))
		if err != nil {
			return err
		}
		if claimed > 0 && (open > 0 || try >= triesForBoth) {
			suite.Progress("  after %d tries: %d open transactions and %d claimed events", try+1, open, claimed)
			return nil
		}
		sys.allowed.Duplicates += inFlight
		broker.Reset()
		broker.Resume()
		database.Resume()
		if err := sys.awaitClaiming(ctx, r); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s never had a claim", r.name)
}

// requireClaimed requires that the events that are stored now are published in claimGraceTime,
// while the machine is still gone. Its open transaction, and so its locks, must have ended as
// well.
func (sys *system) requireClaimed(ctx context.Context) error {
	began, left := time.Now(), 0
	var now time.Time
	if err := sys.orderDB.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return err
	}
	for {
		err := sys.orderDB.QueryRow(ctx, "SELECT count(*) FROM outbox_status WHERE status <> 'published' AND created_at <= $1", now).Scan(&left)
		if err != nil {
			return err
		}
		open := 0
		if err := sys.orderDB.QueryRow(ctx, idleTransactionsSQL).Scan(&open); err != nil {
			return err
		}
		if left+open == 0 {
			sys.takeover = time.Since(began)
			suite.Progress("  the other relay has published everything after %.1f s", sys.takeover.Seconds())
			return nil
		}
		if time.Since(began) > claimGraceTime {
			sys.reportViolation("P4", "%d events are not published, and %d transactions are open, %s after a relay's machine vanished", left, open, claimGraceTime)
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
