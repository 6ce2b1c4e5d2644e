package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// History reads what was recorded about an order, for people. It changes nothing.
type History struct{ db *postgres.DB }

// NewHistory returns the history in db.
func NewHistory(db *postgres.DB) History { return History{db} }

// Arrival is one message about an order: that it arrived, and what became of its e-mail.
type Arrival struct {
	MessageID     uuid.UUID
	OrderVersion  int
	EventKey      string
	Recipient     string
	OccurredAt    *time.Time // by order-service's database
	CreatedAt     time.Time  // when the message was recorded
	InboxSince    *time.Time // nil: the inbox does not remember the message any more
	Status        Status
	Attempts      int
	LeaseUntil    *time.Time
	LeaseEnded    bool
	FailureReason *string
	SentAt        *time.Time
	LastVersion   int // the newest version of the order; it supersedes the older ones
}

// maxArrivals bounds the history of one order. An order has at most a few events.
const maxArrivals = 100

// ofOrderSQL finds the rows by the index of orders, and the others by primary keys.
const ofOrderSQL = `
SELECT n.message_id, n.order_version, n.event_key, n.recipient,
       cast(n.order_details->>'occurred_at' AS timestamptz) AS occurred_at,
       n.created_at, m.processed_at AS inbox_since, n.status, n.attempts, n.lease_until,
       coalesce(n.lease_until <= now(), false) AS lease_ended, n.failure_reason, n.sent_at,
       coalesce(p.last_version, n.order_version) AS last_version
FROM notifications n
LEFT JOIN processed_messages m USING (message_id)
LEFT JOIN order_progress p USING (order_id)
WHERE n.order_id = @order
ORDER BY n.order_version, n.created_at, n.message_id LIMIT @limit`

// OfOrder returns the messages about an order, in the order of their versions. There are none if
// none has arrived, or if they are pruned.
func (h History) OfOrder(ctx context.Context, order uuid.UUID) ([]Arrival, error) {
	return readHistory(ctx, h, ofOrderSQL, postgres.Args{"order": order, "limit": maxArrivals}, pgx.RowToStructByName[Arrival])
}

// orderOfSQL finds an order by its own id or by that of a message.
const orderOfSQL = `
SELECT order_id FROM (
  (SELECT order_id FROM notifications WHERE order_id = @id LIMIT 1)
  UNION ALL (SELECT order_id FROM notifications WHERE message_id = @id)
) found LIMIT 1`

// OrderOf returns the order whose id this is, or that a message with this id is about. It returns
// uuid.Nil if there is none.
func (h History) OrderOf(ctx context.Context, id uuid.UUID) (uuid.UUID, error) {
	found, err := readHistory(ctx, h, orderOfSQL, postgres.Args{"id": id}, pgx.RowTo[uuid.UUID])
	if err != nil || len(found) == 0 {
		return uuid.Nil, err
	}
	return found[0], nil
}

func readHistory[T any](ctx context.Context, h History, query string, args postgres.Args, scan pgx.RowToFunc[T]) (rows []T, err error) {
	err = h.db.InSnapshot(ctx, func(tx pgx.Tx) error {
		if err := postgres.UseIndexes(ctx, tx); err != nil {
			return err
		}
		rows, err = postgres.Read(ctx, tx, query, args, scan)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the notifications: %w", err)
	}
	return rows, nil
}
