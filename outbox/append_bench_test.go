package outbox_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// plainSQL inserts the rows of one event with a parameter for each column.
const plainSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, version, aggregate, aggregate_id, topic, payload, content_type)
  VALUES ($1, 0, $2, $3, $4, $5, $6, 'application/json') RETURNING id, seq, slot, version, aggregate, aggregate_id, topic
)
INSERT INTO outbox_queue (id, seq, slot, version, aggregate, aggregate_id, topic, bytes) SELECT *, $7 FROM event`

// BenchmarkAppend compares Append with a plain INSERT of both rows. A thousand events are one
// transaction, so the figures are of the statement, and not of the commit.
func BenchmarkAppend(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 300)
	for _, bench := range []struct {
		name   string
		events int
		append func(tx pgx.Tx, id string) error
	}{
		{"plain", 1, func(tx pgx.Tx, id string) error {
			_, err := tx.Exec(b.Context(), plainSQL, uuid.Must(uuid.NewV7()), 1, "order", id, "order.created", payload, len(payload))
			return err
		}},
		{"Append", 1, func(tx pgx.Tx, id string) error {
			return outbox.Append(b.Context(), tx, outbox.Event{
				Topic: "order.created", Aggregate: "order", AggregateID: id, Version: 1, Payload: payload,
			})
		}},
		{"Append of 100", 100, func(tx pgx.Tx, id string) error {
			events := make([]outbox.Event, 100)
			for i := range events {
				events[i] = outbox.Event{Topic: "order.created", Aggregate: "order", AggregateID: id, Version: i + 1, Payload: payload}
			}
			return outbox.Append(b.Context(), tx, events...)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			pool := dbtest.Migrated(b)
			for b.Loop() {
				err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
					for range 1000 / bench.events {
						if err := bench.append(tx, uuid.NewString()); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/event")
		})
	}
}
