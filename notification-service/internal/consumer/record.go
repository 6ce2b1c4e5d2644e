package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// recorded is the result of recording one message.
type recorded struct {
	inbox        inbox.Result
	notification notification.Notification
	err          error
}

// maxWait is how long a message waits in place for another process that has the lease.
const maxWait = 3 * time.Second

// lease records the message, together with others, and leases its notification if there is
// something left to do. If another process has the lease, it waits up to maxWait.
func (c *Consumer) lease(d *delivery) (recorded, error) {
	return backoff.Retry(d.held, func() (recorded, error) {
		found, err := c.recordOnce(d)
		switch {
		case err != nil:
			return found, backoff.Permanent(err)
		case found.notification.Status == notification.Sending && !found.notification.HasLease:
			return found, leasedElsewhereError{fmt.Errorf("another process is sending the e-mail of message %s", d.ID)}
		default:
			d.leased = d.leased || found.notification.HasLease
			return found, nil
		}
	}, backoff.WithMaxElapsedTime(maxWait))
}

func (c *Consumer) recordOnce(d *delivery) (recorded, error) {
	database, err := c.database.enter(d.held)
	if err != nil {
		return recorded{}, fmt.Errorf("waiting for %s: %w", c.database.name, err)
	}
	defer database.release()
	found, err := c.records.Do(d.held, d)
	if err != nil {
		return recorded{}, err
	}
	if found.err == nil {
		database.succeed()
		return found, nil
	}
	return recorded{}, d.classify(database, &d.databaseFailures, classifyDatabase(found.err))
}

const (
	// recordTimeout is for one transaction.
	recordTimeout = 10 * time.Second
	// lockTimeout is short. If the row of one message stays locked, the others of its batch must
	// not wait as long: each is tried alone then.
	lockTimeout = time.Second
)

// record writes a batch to the inbox, with its effects, in one transaction. If that fails, each
// message is tried alone, so that a bad one costs the others no retry. It does not try them
// alone when the database is away or does not answer: each try would fail as well.
func (c *Consumer) record(ctx context.Context, batch []*delivery) []recorded {
	results, err := c.recordTogether(ctx, batch)
	if err == nil {
		return results
	}
	if len(batch) == 1 || isDatabaseDown(err) || errors.Is(err, context.DeadlineExceeded) {
		return failAll(batch, err)
	}
	results = make([]recorded, 0, len(batch))
	for i, d := range batch {
		alone, err := c.recordTogether(ctx, []*delivery{d})
		if isDatabaseDown(err) || errors.Is(err, context.DeadlineExceeded) {
			return append(results, failAll(batch[i:], err)...)
		}
		if err != nil {
			alone = failAll(batch[i:i+1], err)
		}
		results = append(results, alone...)
	}
	return results
}

func failAll(batch []*delivery, err error) []recorded {
	results := make([]recorded, len(batch))
	for i := range results {
		results[i].err = err
	}
	return results
}

func (c *Consumer) recordTogether(ctx context.Context, batch []*delivery) (results []recorded, err error) {
	defer recoverPanic(ctx, &err)
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	results = make([]recorded, len(batch))
	err = c.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := postgres.UseIndexes(ctx, tx); err != nil {
			return err
		}
		if err := postgres.SetLockTimeout(ctx, tx, lockTimeout); err != nil {
			return err
		}
		messages := make([]inbox.Message, 0, len(batch))
		for _, d := range batch {
			messages = append(messages, d.inboxMessage())
		}
		inboxResults, err := c.inbox.Record(ctx, tx, messages)
		if err != nil {
			return err
		}
		return c.recordEffects(ctx, tx, batch, inboxResults, results)
	})
	if err != nil {
		return nil, err
	}
	crashpoint.At("consumer.committed")
	for _, r := range results {
		if r.inbox != inbox.OutsideWindow {
			c.effect.AfterCommit(r.notification)
		}
		if r.notification.HasLease {
			c.clock.set(r.notification.StartedAt)
		}
	}
	return results, nil
}

func (c *Consumer) recordEffects(ctx context.Context, tx pgx.Tx, batch []*delivery, inboxResults []inbox.Result, results []recorded) error {
	var (
		requests []notification.Request
		places   []int
	)
	for i, d := range batch {
		results[i].inbox = inboxResults[i]
		if inboxResults[i] != inbox.OutsideWindow {
			places = append(places, i)
			requests = append(requests, notification.Request{
				ID: d.id, Event: d.event, First: inboxResults[i] == inbox.First, Replayed: d.flag(ReplayedHeader),
			})
		}
	}
	notifications, err := c.effect.Record(ctx, tx, requests)
	if err != nil {
		return err
	}
	for i, n := range notifications {
		results[places[i]].notification = n
	}
	defer crashpoint.At("consumer.recorded")
	return nil
}
