// Package inbox receives the events from Pub/Sub, and gives each one its effect once.
//
// Delivery is at least once. Pub/Sub may deliver a message again, and a relay may publish an event
// again. So the consumer keeps the ids of the events that have had their effect, in the table of
// the library's package inbox. Google's option "exactly-once delivery" does not replace this inbox.
// It compares only Pub/Sub's own ids, and each publish gets a new one.
package inbox

import (
	"context"
	"encoding/json"
	"log/slog"

	"cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/examples/pubsub/googlepubsub"
	"example.com/transactional-outbox/outbox/inbox"
)

// Migrate makes the inbox and the table of effects: one row for each event. A real consumer would
// write to its own tables.
func Migrate(ctx context.Context, db *pgxpool.Pool) error {
	if err := inbox.Migrate(ctx, db); err != nil {
		return err
	}
	_, err := db.Exec(ctx, effectsSQL)
	return err
}

const effectsSQL = `
CREATE TABLE IF NOT EXISTS effects (
  seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id uuid NOT NULL,
  version  int  NOT NULL,
  event    text NOT NULL)`

// Receive records the messages of a subscription until ctx ends. The subscription must have
// message ordering: then the library hands over the messages of an order one after another.
func Receive(ctx context.Context, client *pubsub.Client, subscription string, db *pgxpool.Pool) error {
	return client.Subscriber(subscription).Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		first, err := record(ctx, db, m)
		if err != nil {
			slog.ErrorContext(ctx, "not recorded, it comes again", "message_id", m.Attributes[googlepubsub.ID], "error", err)
			m.Nack()
			return
		}
		slog.InfoContext(ctx, "received", "message_id", m.Attributes[googlepubsub.ID], "pubsub_id", m.ID,
			"key", m.Attributes[googlepubsub.Key], "ordering_key", m.OrderingKey, "first", first)
		m.Ack()
	})
}

// record writes the id and the effect in one transaction, and reports whether the id is new.
func record(ctx context.Context, db *pgxpool.Pool, m *pubsub.Message) (first bool, err error) {
	var event struct {
		OrderID uuid.UUID `json:"order_id"`
		Version int       `json:"order_version"`
	}
	if err := json.Unmarshal(m.Data, &event); err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		first, err = inbox.Record(ctx, tx, "subscriber", m.Attributes[googlepubsub.ID])
		if err != nil || !first {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO effects (order_id, version, event) VALUES ($1, $2, $3)`,
			event.OrderID, event.Version, m.Attributes[googlepubsub.Key])
		return err
	})
	return first, err
}
