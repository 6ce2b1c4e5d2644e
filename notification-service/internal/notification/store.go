package notification

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	MessageID    uuid.UUID
	OrderID      uuid.UUID
	EventKey     string
	Recipient    string
	OrderDetails string
	Status       status
	LeaseToken   uuid.NullUUID
	StartedAt    time.Time // by the database's clock
	mine         bool      // the lease is this caller's
}

// progressSQL raises what is known of the order. The row's lock makes the order's
// events take turns until their transactions end.
const progressSQL = `
INSERT INTO order_progress AS p (order_id, last_version) VALUES (@order, @version)
ON CONFLICT (order_id) DO UPDATE SET last_version = greatest(p.last_version, excluded.last_version)
RETURNING last_version`

// recordSQL finds the notification there when an operator forces a message whose note
// in the inbox is pruned: the effect exists, and Complete finds out how far it is.
const recordSQL = `
INSERT INTO notifications (message_id, order_id, order_version, event_key, recipient, order_details, status)
VALUES (@id, @order, @version, @key, @recipient, @details, @status)
ON CONFLICT (message_id) DO NOTHING`

func record(ctx context.Context, tx *postgres.Tx, id uuid.UUID, recipient string, e Event) error {
	details, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding the order of message %s: %w", id, err)
	}
	last, err := postgres.ReadOne(ctx, tx, progressSQL, postgres.Args{"order": e.OrderID, "version": e.OrderVersion}, pgx.RowTo[int])
	if err != nil {
		return fmt.Errorf("raising the progress of order %s: %w", e.OrderID, err)
	}
	state := pending
	if e.OrderVersion < last {
		state = superseded
	}
	return tx.Write("recording the notification", recordSQL, postgres.Args{
		"id": id, "order": e.OrderID, "version": e.OrderVersion, "key": e.Key,
		"recipient": recipient, "details": string(details), "status": state,
	})
}

// startSQL takes the lease of a notification that nobody is sending, unless a newer
// event of its order has come in the meantime: then there is nothing left to say. One
// that was rejected is tried again: its message comes again only when an operator who
// has mended something replays it, or when a crash kept it from the dead letters.
const startSQL = `
UPDATE notifications n
SET status      = CASE WHEN n.order_version < p.last_version THEN 'superseded' ELSE 'sending' END,
    attempts    = n.attempts + CASE WHEN n.order_version < p.last_version THEN 0 ELSE 1 END,
    lease_token = CASE WHEN n.order_version < p.last_version THEN NULL ELSE cast(@token AS uuid) END,
    lease_until = CASE WHEN n.order_version < p.last_version THEN NULL ELSE now() + @lease * interval '1 second' END
FROM order_progress p
WHERE n.message_id = @id AND p.order_id = n.order_id
  AND (n.status IN ('pending', 'rejected') OR (n.status = 'sending' AND n.lease_until <= now()))`

const readSQL = `
SELECT message_id, order_id, event_key, recipient, order_details, status, lease_token, now() AS started_at
FROM notifications WHERE message_id = @id`

// start takes the lease if it is to be had, and returns the notification either way.
func (s *Service) start(ctx context.Context, id uuid.UUID) (notification, error) {
	token := uuid.New()
	var found []notification
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := tx.Write("taking the lease", startSQL, postgres.Args{"id": id, "token": token, "lease": lease.Seconds()}); err != nil {
			return err
		}
		return postgres.Collect(tx, &found, "reading it", readSQL, postgres.Args{"id": id}, pgx.RowToStructByName[notification])
	})
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return notification{}, fmt.Errorf("starting notification %s: %w", id, err)
	}
	n := found[0]
	n.mine = n.LeaseToken.Valid && n.LeaseToken.UUID == token
	return n, nil
}

// markSentSQL asks for no lease: that the e-mail went out is a fact, whoever holds
// the lease by now, and writing it saves a repeat.
const markSentSQL = `
UPDATE notifications SET status = 'sent', sent_at = now(), lease_token = NULL, lease_until = NULL, failure_reason = NULL
WHERE message_id = @id AND status <> 'sent'
RETURNING coalesce(extract(epoch FROM now() - cast(order_details->>'occurred_at' AS timestamptz))::float8, 'NaN')`

// markSent returns the seconds since the event occurred, by the databases' clocks: NaN
// if the event does not say when, and none if the notification was marked before.
func (s *Service) markSent(ctx context.Context, id uuid.UUID) (age []float64, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		return postgres.Collect(tx, &age, "marking it sent", markSentSQL, postgres.Args{"id": id}, pgx.RowTo[float64])
	})
	if err != nil {
		return nil, fmt.Errorf("notification %s: %w", id, err)
	}
	return age, nil
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
	return s.exec(ctx, "marking it rejected", rejectSQL, postgres.Args{"id": n.MessageID, "token": n.LeaseToken, "reason": shorten(reason)})
}

func (s *Service) putBack(ctx context.Context, n notification) error {
	return s.exec(ctx, "putting it back", putBackSQL, postgres.Args{"id": n.MessageID, "token": n.LeaseToken})
}

func (s *Service) exec(ctx context.Context, doing, statement string, args postgres.Args) error {
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error { return tx.Write(doing, statement, args) })
	if err != nil {
		return fmt.Errorf("notification %s: %w", args["id"], err)
	}
	return nil
}

// maxReason is the width of failure_reason, in bytes.
const maxReason = 1024

func shorten(reason string) string {
	reason = strings.ReplaceAll(reason, "\x00", "")
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}
