package notification

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

type status string

const (
	pending    status = "pending"
	sending    status = "sending"
	sent       status = "sent"
	rejected   status = "rejected"
	superseded status = "superseded"
)

// notification is what sending needs to know.
type notification struct {
	MessageID     uuid.UUID
	OrderID       uuid.UUID
	EventKey      string
	Recipient     string
	OrderDetails  string
	Status        status
	LeaseToken    uuid.NullUUID
	FailureReason string
	mine          bool // the lease is this caller's
}

// progressSQL raises what is known of the order. The row's lock makes the order's
// events take turns until their transactions end.
const progressSQL = `
INSERT INTO order_progress AS p (order_id, last_version) VALUES (@order, @version)
ON CONFLICT (order_id) DO UPDATE SET last_version = greatest(p.last_version, excluded.last_version)
RETURNING last_version`

const recordSQL = `
INSERT INTO notifications (message_id, order_id, order_version, event_key, recipient, order_details, status)
VALUES (@id, @order, @version, @key, @recipient, @details, @status)`

func record(ctx context.Context, tx *postgres.Tx, id uuid.UUID, recipient string, e Event) error {
	details, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding the order of message %s: %w", id, err)
	}
	var last int
	err = tx.Gorm(ctx).Raw(progressSQL, map[string]any{"order": e.OrderID, "version": e.OrderVersion}).Scan(&last).Error
	if err != nil {
		return fmt.Errorf("raising the progress of order %s: %w", e.OrderID, err)
	}
	state := pending
	if e.OrderVersion < last {
		state = superseded
	}
	err = tx.Gorm(ctx).Exec(recordSQL, map[string]any{
		"id": id, "order": e.OrderID, "version": e.OrderVersion, "key": e.Key,
		"recipient": recipient, "details": string(details), "status": state,
	}).Error
	if err != nil {
		return fmt.Errorf("recording the notification of message %s: %w", id, err)
	}
	return nil
}

// startSQL takes the lease of a notification that nobody is sending, unless a newer
// event of its order has come in the meantime: then there is nothing left to say.
const startSQL = `
UPDATE notifications n
SET status      = CASE WHEN n.order_version < p.last_version THEN 'superseded' ELSE 'sending' END,
    attempts    = n.attempts + CASE WHEN n.order_version < p.last_version THEN 0 ELSE 1 END,
    lease_token = CASE WHEN n.order_version < p.last_version THEN NULL ELSE cast(@token AS uuid) END,
    lease_until = CASE WHEN n.order_version < p.last_version THEN NULL ELSE now() + @lease * interval '1 second' END
FROM order_progress p
WHERE n.message_id = @id AND p.order_id = n.order_id
  AND (n.status = 'pending' OR (n.status = 'sending' AND n.lease_until <= now()))`

const readSQL = `
SELECT message_id, order_id, event_key, recipient, order_details, status, lease_token,
       coalesce(failure_reason, '') AS failure_reason
FROM notifications WHERE message_id = @id`

// start takes the lease if it is to be had, and returns the notification either way.
func (s *Service) start(ctx context.Context, id uuid.UUID) (n notification, err error) {
	token := uuid.New()
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		args := map[string]any{"id": id, "token": token, "lease": lease.Seconds()}
		if err := tx.Gorm(ctx).Exec(startSQL, args).Error; err != nil {
			return err
		}
		return tx.Gorm(ctx).Raw(readSQL, args).Scan(&n).Error
	})
	if err != nil {
		return notification{}, fmt.Errorf("starting notification %s: %w", id, err)
	}
	n.mine = n.LeaseToken.Valid && n.LeaseToken.UUID == token
	return n, nil
}

// markSentSQL asks for no lease: that the e-mail went out is a fact, whoever holds
// the lease by now, and writing it saves a repeat.
const markSentSQL = `
UPDATE notifications SET status = 'sent', sent_at = now(), lease_token = NULL, lease_until = NULL, failure_reason = NULL
WHERE message_id = @id AND status <> 'sent'`

func (s *Service) markSent(ctx context.Context, id uuid.UUID) error {
	return s.exec(ctx, "marking it sent", markSentSQL, map[string]any{"id": id})
}

// A step back is fenced by the lease: after it has ended, somebody else may be
// sending.
const (
	rejectSQL = `
UPDATE notifications SET status = 'rejected', lease_token = NULL, lease_until = NULL, failure_reason = @reason
WHERE message_id = @id AND lease_token = @token`
	putBackSQL = `
UPDATE notifications SET status = 'pending', lease_token = NULL, lease_until = NULL
WHERE message_id = @id AND lease_token = @token`
)

func (s *Service) reject(ctx context.Context, n notification, reason string) error {
	return s.exec(ctx, "marking it rejected", rejectSQL, map[string]any{"id": n.MessageID, "token": n.LeaseToken, "reason": shorten(reason)})
}

func (s *Service) putBack(ctx context.Context, n notification) error {
	return s.exec(ctx, "putting it back", putBackSQL, map[string]any{"id": n.MessageID, "token": n.LeaseToken})
}

func (s *Service) exec(ctx context.Context, doing, statement string, args map[string]any) error {
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error { return tx.Gorm(ctx).Exec(statement, args).Error })
	if err != nil {
		return fmt.Errorf("notification %s: %s: %w", args["id"], doing, err)
	}
	return nil
}
