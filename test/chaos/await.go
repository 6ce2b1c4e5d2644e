package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/suite"
)

// maxWait is the one limit for waiting. No promise depends on it: what took less is only reported.
const maxWait = 2 * time.Minute

// awaitNothing calls left until it returns "", or PATIENCE has passed. It returns what is left.
func (sys *system) awaitNothing(ctx context.Context, left func() (string, error)) (string, error) {
	for deadline := time.Now().Add(sys.Patience); ; {
		what, err := left()
		if err != nil || what == "" || time.Now().After(deadline) {
			return what, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return what, err
		}
	}
}

// require waits until left returns "", and reports how long that took. What is left after PATIENCE
// breaks the promise.
func (sys *system) require(ctx context.Context, promise, when string, left func() (string, error)) error {
	began := time.Now()
	what, err := sys.awaitNothing(ctx, left)
	if err != nil {
		return err
	}
	if what != "" {
		sys.reportViolation(promise, "%s, %s %s", what, sys.Patience, when)
		return nil
	}
	took := time.Since(began)
	sys.note("all is well %.1f s %s", took.Seconds(), when)
	sys.longestWait = max(sys.longestWait, took)
	return nil
}

// awaitCount waits until a count of the order database is enough, and fails if it never is: then
// the fault was not possible.
func (sys *system) awaitCount(ctx context.Context, query string, enough func(int) bool) error {
	what, err := sys.awaitNothing(ctx, func() (string, error) {
		n := 0
		if err := sys.orderDB.QueryRow(ctx, query).Scan(&n); err != nil {
			return "", fmt.Errorf("%s: %w", query, err)
		}
		if enough(n) {
			return "", nil
		}
		return fmt.Sprintf("the count is %d: %s", n, query), nil
	})
	if err == nil && what != "" {
		err = fmt.Errorf("%s", what)
	}
	return err
}

// enoughOrders is more than the requests that can be under way when a fault begins.
const enoughOrders = 5 * clients

// requireOrders requires that the API takes orders while a fault lasts (P10).
func (sys *system) requireOrders(ctx context.Context) error {
	before := sys.load.Acknowledged()
	return sys.require(ctx, "P10", "during the fault", func() (string, error) {
		if n := sys.load.Acknowledged() - before; n < enoughOrders {
			return fmt.Sprintf("%d orders were placed", n), nil
		}
		return "", nil
	})
}

// now returns the time of the order database.
func (sys *system) now(ctx context.Context) (now time.Time, err error) {
	err = sys.orderDB.QueryRow(ctx, "SELECT now()").Scan(&now)
	return now, err
}

// storedSince counts the orders' events that were stored after a time.
func (sys *system) storedSince(ctx context.Context, since time.Time) (all, published int, err error) {
	err = sys.orderDB.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE status = 'published') FROM outbox_status
		WHERE topic LIKE 'order.%' AND created_at > $1`, since).Scan(&all, &published)
	return all, published, err
}

// enoughEvents come from some seconds of load.
const enoughEvents = 100

// requireFlow requires that events of orders that are placed from now on are published while the
// fault lasts.
func (sys *system) requireFlow(ctx context.Context) error {
	since, err := sys.now(ctx)
	if err != nil {
		return err
	}
	return sys.require(ctx, "P4", "after the start of the fault", func() (string, error) {
		_, n, err := sys.storedSince(ctx, since)
		if n < enoughEvents {
			return fmt.Sprintf("only %d new events of orders are published", n), err
		}
		return "", err
	})
}

// allowRepeatsSince permits one repeat of each event that was stored after a time: the relays have
// lost the answers of some of them.
func (sys *system) allowRepeatsSince(ctx context.Context, since time.Time) error {
	n, _, err := sys.storedSince(ctx, since)
	sys.allowed.Duplicates += n
	return err
}

const (
	// recordedSQL counts the messages that are recorded, and settledSQL those of them whose e-mail, if
	// they have one, does not wait.
	recordedSQL = "SELECT count(*) FROM processed_messages WHERE message_id = ANY ($1::text[])"
	settledSQL  = recordedSQL + " AND message_id NOT IN (SELECT id::text FROM outbox_queue WHERE failed_at IS NULL)"
)

// requireEffects requires that these messages have their effect.
func (sys *system) requireEffects(ctx context.Context, ids []string, promise, when string) error {
	return sys.requireMessages(ctx, settledSQL, ids, promise, when)
}

// requireMessages requires that a query counts all of these messages.
func (sys *system) requireMessages(ctx context.Context, query string, ids []string, promise, when string) error {
	return sys.require(ctx, promise, when, func() (string, error) {
		found := 0
		err := sys.notificationDB.QueryRow(ctx, query, ids).Scan(&found)
		if found < len(ids) {
			return fmt.Sprintf("%d of %d messages have no effect", len(ids)-found, len(ids)), err
		}
		return "", err
	})
}

// requireAllEffects requires that all events published so far have their effect.
func (sys *system) requireAllEffects(ctx context.Context, promise, when string) error {
	ids, err := sys.publishedIDs(ctx)
	if err != nil {
		return err
	}
	return sys.requireEffects(ctx, ids, promise, when)
}

// publishedIDs returns the ids of the orders' events that are published.
func (sys *system) publishedIDs(ctx context.Context) ([]string, error) {
	rows, _ := sys.orderDB.Query(ctx, "SELECT id::text FROM outbox_status WHERE status = 'published' AND topic LIKE 'order.%'")
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// awaitFinished waits until the services have finished all work. It returns what is left.
func (sys *system) awaitFinished(ctx context.Context) (unfinished string, err error) {
	return sys.awaitNothing(ctx, func() (string, error) {
		if err := sys.unfinished(ctx); err != nil { //nolint:nilerr // a server may still start
			return err.Error(), ctx.Err()
		}
		return "", nil
	})
}

// unfinished returns the work that is left, as an error.
func (sys *system) unfinished(ctx context.Context) error {
	var due, recorded, waiting int
	err := sys.orderDB.QueryRow(ctx, "SELECT count(*) FROM outbox_status WHERE status IN ('pending', 'in_progress')").Scan(&due)
	if err != nil {
		return err
	}
	if due > 0 {
		return fmt.Errorf("%d events are not published", due)
	}
	published, err := sys.publishedIDs(ctx)
	if err != nil {
		return err
	}
	err = sys.notificationDB.QueryRow(ctx, `SELECT (`+recordedSQL+`),
		(SELECT count(*) FROM outbox_queue WHERE failed_at IS NULL)`, published).Scan(&recorded, &waiting)
	if err != nil {
		return err
	}
	if waiting > 0 || recorded < len(published) {
		return fmt.Errorf("%d of %d published events are recorded, and %d e-mails wait", recorded, len(published), waiting)
	}
	return sys.unfinishedQueues(ctx)
}

func (sys *system) unfinishedQueues(ctx context.Context) error {
	ready, err := sys.broker.Ready(ctx, append([]string{broker.Queue}, retryQueues()...)...)
	if err == nil && ready > 0 {
		err = fmt.Errorf("%d messages wait in queues", ready)
	}
	if err != nil || len(sys.allowed.Malformed) == 0 {
		return err
	}
	dead, err := sys.broker.Ready(ctx, broker.DeadLetters)
	if err == nil && dead < len(sys.allowed.Malformed) {
		err = fmt.Errorf("%d of %d malformed messages are dead letters", dead, len(sys.allowed.Malformed))
	}
	return err
}

var sleep = suite.Sleep // many lines have it

// sleepRandom waits for a random time between half of d and d.
func (sys *system) sleepRandom(ctx context.Context, d time.Duration) error {
	return sleep(ctx, d/2+time.Duration(sys.random.Int64N(int64(d/2))))
}
