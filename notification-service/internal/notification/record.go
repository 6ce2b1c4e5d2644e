package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Status is a state of a notification.
type Status string

// The states.
const (
	Pending    Status = "pending"    // not sent, and not leased
	Sending    Status = "sending"    // leased
	Sent       Status = "sent"       // accepted by the mail server
	Rejected   Status = "rejected"   // never accepted; its message is a dead letter
	Superseded Status = "superseded" // the order has a newer event
	// Pruned is for a message that came before, and whose notification is pruned.
	Pruned Status = "pruned"
)

// Request asks for the notification of one message.
type Request struct {
	ID       uuid.UUID
	Event    Event
	First    bool // the message came for the first time
	Replayed bool // an operator wants another try after a rejection
}

// Notification is a notification as Record found or made it.
type Notification struct {
	MessageID uuid.UUID
	OrderID   uuid.UUID
	EventKey  string
	Recipient string
	Event     Event
	Status    Status
	HasLease  bool      // this process has the lease, and may send the e-mail
	StartedAt time.Time // by the database's clock
}

// Record writes a notification in tx for each message that came for the first time, and leases
// it. It also leases those that came before and still have to be sent. The results have the
// order of the requests. An id may occur only once in a batch.
func (s *Service) Record(ctx context.Context, tx pgx.Tx, requests []Request) ([]Notification, error) {
	var first, repeated []Request
	for _, r := range requests {
		if r.First {
			first = append(first, r)
		} else {
			repeated = append(repeated, r)
		}
	}
	states := map[uuid.UUID]state{}
	if err := s.insert(ctx, tx, first, states); err != nil {
		return nil, err
	}
	if err := s.lease(ctx, tx, repeated, states); err != nil {
		return nil, err
	}
	notifications := make([]Notification, 0, len(requests))
	for _, r := range requests {
		notifications = append(notifications, s.notification(r, states))
	}
	return notifications, nil
}

func (s *Service) notification(r Request, states map[uuid.UUID]state) Notification {
	n := Notification{
		MessageID: r.ID, OrderID: r.Event.OrderID, EventKey: r.Event.Key,
		Recipient: s.recipient(r.Event), Event: r.Event, Status: Pruned,
	}
	if now, known := states[r.ID]; known {
		n.Status, n.HasLease, n.StartedAt = now.Status, now.HasLease, now.StartedAt
	}
	return n
}

func (s *Service) recipient(e Event) string {
	if e.CustomerEmail == "" {
		return s.config.DefaultRecipient
	}
	return e.CustomerEmail
}

// AfterCommit must be called for each result of Record once its transaction is committed. From
// now on the service renews the lease of n, if this process has it. If not, it stops renewing
// it: n may be superseded, or already sent.
func (s *Service) AfterCommit(n Notification) {
	if n.HasLease {
		s.leases.add(n.MessageID)
	} else {
		s.leases.remove(n.MessageID)
	}
}

// state is a row after Record.
type state struct {
	MessageID uuid.UUID
	Status    Status
	HasLease  bool
	StartedAt time.Time
}

// insertSQL records a batch:
//
//   - progress: the newest version of each order is raised first. The row's lock serialises the
//     order's events until their transactions end. ORDER BY makes all transactions lock the
//     orders in the same order, so that they do not deadlock.
//   - An event that is older than the progress is superseded: its e-mail is never sent.
//   - DO UPDATE is for a message that an operator forces after the inbox has forgotten it. It
//     has its effect again.
const insertSQL = `
WITH arrived AS MATERIALIZED (
  SELECT * FROM unnest(cast(@ids AS uuid[]), cast(@orders AS uuid[]), cast(@versions AS int[]),
                       cast(@keys AS text[]), cast(@recipients AS text[]), cast(@details AS text[]))
    AS a (id, order_id, version, event_key, recipient, details)
), progress AS (
  INSERT INTO order_progress AS p (order_id, last_version)
  SELECT order_id, max(version) FROM arrived GROUP BY order_id ORDER BY order_id
  ON CONFLICT (order_id) DO UPDATE SET last_version = greatest(p.last_version, excluded.last_version)
  RETURNING order_id, last_version
)
INSERT INTO notifications AS n (message_id, order_id, order_version, event_key, recipient, order_details,
                                status, attempts, lease_token, lease_until)
SELECT a.id, a.order_id, a.version, a.event_key, a.recipient, cast(a.details AS jsonb),
       CASE WHEN a.version < p.last_version THEN 'superseded' ELSE 'sending' END,
       CASE WHEN a.version < p.last_version THEN 0 ELSE 1 END,
       CASE WHEN a.version < p.last_version THEN NULL ELSE cast(@token AS uuid) END,
       CASE WHEN a.version < p.last_version THEN NULL ELSE now() + @lease * interval '1 second' END
FROM arrived a JOIN progress p USING (order_id)
ORDER BY a.id
ON CONFLICT (message_id) DO UPDATE
  SET status = excluded.status, attempts = n.attempts + excluded.attempts, sent_at = NULL, failure_reason = NULL,
      lease_token = excluded.lease_token, lease_until = excluded.lease_until
RETURNING message_id, status, status = 'sending' AS has_lease, now() AS started_at`

func (s *Service) insert(ctx context.Context, tx pgx.Tx, requests []Request, states map[uuid.UUID]state) error {
	if len(requests) == 0 {
		return nil
	}
	var (
		ids, orders               [][16]byte
		versions                  []int
		keys, recipients, details []string
	)
	for _, r := range requests {
		encoded, err := json.Marshal(r.Event)
		if err != nil {
			return fmt.Errorf("encoding the order of message %s: %w", r.ID, err)
		}
		ids, orders, versions = append(ids, r.ID), append(orders, r.Event.OrderID), append(versions, r.Event.OrderVersion)
		keys, recipients = append(keys, r.Event.Key), append(recipients, s.recipient(r.Event))
		details = append(details, string(encoded))
	}
	return readStates(ctx, tx, states, insertSQL, postgres.Args{
		"ids": ids, "orders": orders, "versions": versions, "keys": keys, "recipients": recipients, "details": details,
		"token": s.token, "lease": lease.Seconds(),
	})
}

// leaseSQL leases the notifications that still have to be sent: the pending ones, those that a
// dead process had leased, and those that this process had leased and could not give back. A
// rejected one is tried again only if an operator replays its message. One whose order has a
// newer event becomes superseded.
const leaseSQL = `
WITH chosen AS MATERIALIZED (
  SELECT n.message_id, coalesce(n.order_version < p.last_version, false) AS outdated
  FROM notifications n LEFT JOIN order_progress p USING (order_id)
  WHERE n.message_id = ANY (cast(@ids AS uuid[]))
    AND (n.status = 'pending'
      OR n.status = 'sending' AND (n.lease_until <= now() OR n.lease_token = @token)
      OR n.status = 'rejected' AND n.message_id = ANY (cast(@replayed AS uuid[])))
  ORDER BY n.message_id FOR UPDATE OF n
)
UPDATE notifications n
SET status      = CASE WHEN c.outdated THEN 'superseded' ELSE 'sending' END,
    attempts    = n.attempts + CASE WHEN c.outdated THEN 0 ELSE 1 END,
    lease_token = CASE WHEN c.outdated THEN NULL ELSE cast(@token AS uuid) END,
    lease_until = CASE WHEN c.outdated THEN NULL ELSE now() + @lease * interval '1 second' END,
    failure_reason = NULL
FROM chosen c WHERE n.message_id = c.message_id`

const stateSQL = `
SELECT message_id, status, coalesce(lease_token = @token, false) AS has_lease, now() AS started_at
FROM notifications WHERE message_id = ANY (cast(@ids AS uuid[]))`

func (s *Service) lease(ctx context.Context, tx pgx.Tx, requests []Request, states map[uuid.UUID]state) error {
	if len(requests) == 0 {
		return nil
	}
	var ids, replayed []uuid.UUID
	for _, r := range requests {
		ids = append(ids, r.ID)
		if r.Replayed {
			replayed = append(replayed, r.ID)
		}
	}
	err := postgres.Write(ctx, tx, "leasing notifications", leaseSQL, postgres.Args{
		"ids": bytesOf(ids), "replayed": bytesOf(replayed), "token": s.token, "lease": lease.Seconds(),
	})
	if err != nil {
		return err
	}
	return readStates(ctx, tx, states, stateSQL, postgres.Args{"ids": bytesOf(ids), "token": s.token})
}

func readStates(ctx context.Context, tx pgx.Tx, states map[uuid.UUID]state, statement string, args postgres.Args) error {
	rows, err := postgres.Read(ctx, tx, statement, args, pgx.RowToStructByName[state])
	if err != nil {
		return fmt.Errorf("recording notifications: %w", err)
	}
	for _, row := range rows {
		states[row.MessageID] = row
	}
	return nil
}
