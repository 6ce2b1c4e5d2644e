package outbox

import (
	"context"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/telemetry"
)

// Message is an event to publish.
type Message struct {
	ID               uuid.UUID // the broker's message id; every redelivery has the same
	AggregateType    string    // for example "order"
	AggregateID      uuid.UUID // of the order. The events of one aggregate are published by version
	AggregateVersion int       // from 1, without a gap
	EventKey         string    // for example "order.created": the event's type, and the routing key
	Payload          []byte    // JSON
}

// appendSQL writes the event to the log and to the queue. It takes no lock and reads no other
// event. The claim looks for older events of the same aggregate.
const appendSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent)
  VALUES (@id, @type, @aggregate, @version, @key, @payload, @traceparent)
  RETURNING id, seq, aggregate_type, aggregate_id, aggregate_version, event_key
)
INSERT INTO outbox_queue (id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, bytes)
SELECT *, @bytes FROM event`

// Append stores m in tx, with the trace of ctx. The relay sees m when tx commits. If tx is rolled
// back, m never existed.
//
// Append does not wait for the server. If the server refuses m, the next awaited statement of tx
// or its commit returns the error. Append itself returns an error if tx has ended already.
func Append(ctx context.Context, tx *postgres.Tx, m Message) error {
	return tx.Write("appending "+m.EventKey+" to the outbox", appendSQL, postgres.Args{
		"id": m.ID, "type": m.AggregateType, "aggregate": m.AggregateID, "version": m.AggregateVersion,
		"key": m.EventKey, "payload": string(m.Payload), "bytes": len(m.Payload), "traceparent": telemetry.Traceparent(ctx),
	})
}
