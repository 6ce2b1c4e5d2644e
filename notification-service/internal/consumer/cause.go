package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/inbox"
)

// ForcedHeader marks a message that an operator has replayed although it is outside
// the dedupe window.
const ForcedHeader = "replay-forced"

// cause brings about the effect of a message, once.
func (c *Consumer[E]) cause(ctx context.Context, d rabbitmq.Delivery) (_ outcome, err error) {
	defer recovered(ctx, &err)
	m, event, err := c.read(d.Message)
	if err != nil {
		return "", deadLetterError{err, malformed}
	}
	verdict, err := c.record(ctx, m, event)
	if err != nil {
		return "", ofDatabase(err)
	}
	if verdict == inbox.OutsideWindow {
		return "", deadLetterError{fmt.Errorf("created at %s", m.CreatedAt), OutsideDedupeWindow}
	}
	crashpoint.At("consumer.committed")
	left, err := c.effect.Complete(ctx, m.ID)
	switch {
	case err != nil:
		return "", ofDatabase(err)
	case verdict == inbox.Repeat && !left:
		return duplicate, nil
	default:
		return success, nil
	}
}

// lastYear is the last that four digits hold. Far beyond, the database's driver
// overflows, and takes the future for the past.
const lastYear = 9999

func (c *Consumer[E]) read(m rabbitmq.Message) (inbox.Message, E, error) {
	id, err := uuid.Parse(m.ID)
	if err != nil {
		err = fmt.Errorf("message id %q: %w", m.ID, err)
	}
	if m.Timestamp.IsZero() || m.Timestamp.Year() > lastYear {
		err = errors.Join(err, errors.New("no timestamp, or one that no calendar knows: its age cannot be told"))
	}
	event, unread := c.effect.Parse(m)
	forced, _ := m.Headers[ForcedHeader].(bool)
	return inbox.Message{ID: id, CreatedAt: m.Timestamp, Forced: forced}, event, errors.Join(err, unread)
}

// record commits to the effect in the transaction that records the message.
func (c *Consumer[E]) record(ctx context.Context, m inbox.Message, event E) (verdict inbox.Verdict, err error) {
	err = c.db.InTx(ctx, func(tx *postgres.Tx) error {
		if verdict, err = c.inbox.Record(ctx, tx, m); err != nil || verdict != inbox.First {
			return err
		}
		defer crashpoint.At("consumer.recorded")
		return c.effect.Record(ctx, tx, m.ID, event)
	})
	return verdict, err
}
