package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/telemetry"
)

// Message is an event on its way out.
type Message struct {
	ID               uuid.UUID // the broker's message id, the same in every repeat
	AggregateType    string    // "order"
	AggregateID      uuid.UUID // whose events leave in the order of their versions
	AggregateVersion int       // from 1, without a gap
	EventKey         string    // "order.created": the type and the routing key
	Payload          []byte    // JSON
}

// appendSQL makes the event due now, or together with an older event of its
// aggregate that is backed off, or parks it behind a failed one: a row that is due and
// blocked would be in the way of each claim.
//
//   - NOT IN, because no partial index fits it: such an index is best while next to
//     nothing is pending or failed, and the plan would stay when there is much;
//   - parking are those that later events are parked behind: failed ones, and those that
//     wait for a route;
//   - FOR SHARE makes whoever is about to replay, discard, publish or bring back such an
//     event wait, until he can see the new one, which he has to bring back; and if he came
//     first, it waits for him and then finds the event no longer in that state;
//   - what is parked is left out of max: only an event that is held may park another one.
//     Otherwise a row could be parked that nobody brings back.
const appendSQL = `
WITH older AS MATERIALIZED (
  SELECT id, status, failure_code, available_at FROM outbox_events
  WHERE aggregate_type = @type AND aggregate_id = @aggregate AND aggregate_version < @version
    AND status NOT IN ('published', 'discarded')
), parking AS MATERIALIZED (
  SELECT FROM outbox_events p
  WHERE id = ANY (ARRAY(SELECT id FROM older p WHERE ` + parksSQL + `)) AND ` + parksSQL + `
  FOR SHARE
)
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent, available_at)
SELECT @id, @type, @aggregate, @version, @key, @payload, @traceparent,
       CASE WHEN EXISTS (SELECT FROM parking) THEN 'infinity' ELSE greatest(now(), max(older.available_at)) END
FROM older WHERE older.status = 'pending' AND older.available_at < 'infinity'`

// Append stores m in tx, with the trace that ctx belongs to. The relay sees m when
// tx commits, and never when it does not.
//
// It does not wait for the server, so what that says against m makes the commit fail,
// or the statement before it. The error here is that tx is over.
func Append(ctx context.Context, tx *postgres.Tx, m Message) error {
	return tx.Write("appending "+m.EventKey+" to the outbox", appendSQL, postgres.Args{
		"id": m.ID, "type": m.AggregateType, "aggregate": m.AggregateID, "version": m.AggregateVersion,
		"key": m.EventKey, "payload": string(m.Payload), "traceparent": telemetry.Traceparent(ctx),
	})
}

// Event is what became of a message.
type Event struct {
	ID          uuid.UUID
	EventKey    string
	Status      string
	RetryCount  int
	CreatedAt   time.Time
	PublishedAt *time.Time
	FailureCode *string
}

const historySQL = `
SELECT id, event_key, status, retry_count, created_at, published_at, failure_code
FROM outbox_events WHERE (aggregate_type, aggregate_id) = (@type, @aggregate)
ORDER BY aggregate_version`

// History returns the events of one aggregate, oldest first.
func History(ctx context.Context, tx *postgres.Tx, aggregateType string, aggregateID uuid.UUID) ([]Event, error) {
	args := postgres.Args{"type": aggregateType, "aggregate": aggregateID}
	events, err := postgres.Read(ctx, tx, historySQL, args, pgx.RowToStructByName[Event])
	if err != nil {
		return nil, fmt.Errorf("reading the events of %s %s: %w", aggregateType, aggregateID, err)
	}
	return events, nil
}
