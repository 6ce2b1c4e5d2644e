package consumer

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// recorded is what the database says to a message.
type recorded struct {
	verdict      inbox.Verdict
	notification notification.Notification
	err          error
}

// maxRecording is for one transaction.
const maxRecording = 10 * time.Second

// record writes the notes and the effects of a batch in one transaction. If that fails, each
// message is tried alone, so that a bad one costs the others no retry. It does not try them
// alone when the database is away or does not answer: each try would fail as well.
func (c *Consumer) record(ctx context.Context, batch []*message) []recorded {
	results, err := c.recordTogether(ctx, batch)
	if err == nil {
		return results
	}
	if len(batch) == 1 || certainlyUnavailable(err) || errors.Is(err, context.DeadlineExceeded) {
		return failed(batch, err)
	}
	results = make([]recorded, 0, len(batch))
	for i, m := range batch {
		alone, err := c.recordTogether(ctx, []*message{m})
		if certainlyUnavailable(err) || errors.Is(err, context.DeadlineExceeded) {
			return append(results, failed(batch[i:], err)...)
		}
		if err != nil {
			alone = failed(batch[i:i+1], err)
		}
		results = append(results, alone...)
	}
	return results
}

func failed(batch []*message, err error) []recorded {
	results := make([]recorded, len(batch))
	for i := range results {
		results[i].err = err
	}
	return results
}

func (c *Consumer) recordTogether(ctx context.Context, batch []*message) (results []recorded, err error) {
	defer recovered(ctx, &err)
	ctx, cancel := context.WithTimeout(ctx, maxRecording)
	defer cancel()
	results = make([]recorded, len(batch))
	err = c.db.InTx(ctx, func(tx *postgres.Tx) error {
		messages := make([]inbox.Message, 0, len(batch))
		for _, m := range batch {
			messages = append(messages, m.inbox())
		}
		verdicts, err := c.inbox.Record(ctx, tx, messages)
		if err != nil {
			return err
		}
		return c.recordEffects(ctx, tx, batch, verdicts, results)
	})
	if err != nil {
		return nil, err
	}
	crashpoint.At("consumer.committed")
	for _, r := range results {
		if r.verdict != inbox.OutsideWindow {
			c.effect.Leased(r.notification)
		}
		if r.notification.Mine {
			c.clock.set(r.notification.StartedAt)
		}
	}
	return results, nil
}

func (c *Consumer) recordEffects(ctx context.Context, tx *postgres.Tx, batch []*message, verdicts []inbox.Verdict, results []recorded) error {
	var (
		requests []notification.Request
		places   []int
	)
	for i, m := range batch {
		results[i].verdict = verdicts[i]
		if verdicts[i] != inbox.OutsideWindow {
			places = append(places, i)
			requests = append(requests, notification.Request{
				ID: m.id, Event: m.event, First: verdicts[i] == inbox.First, Replayed: m.flag(ReplayedHeader),
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
