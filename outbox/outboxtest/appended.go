// Package outboxtest helps to test programs that use the outbox:
//
//	tx, err := pool.Begin(ctx)
//	…
//	err = placeOrder(ctx, tx, order)
//	…
//	events := outboxtest.Appended(t, tx) // what placeOrder has appended
//	tx.Rollback(ctx)                     // the next test finds nothing
//
// [Appended] looks into a transaction that is still open, and [RequireAppended] at what is
// committed. Both need no relay and no broker. [Drain] does a relay's work once: it hands what is due
// to a function.
package outboxtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
)

// eventsSQL returns events as one JSON text: every mode of every driver can read that.
const eventsSQL = `
SELECT cast(coalesce(json_agg(json_build_object(
  'ID', e.id, 'Topic', e.topic, 'Destination', coalesce(e.destination, ''), 'Aggregate', coalesce(e.aggregate, ''), 'AggregateID', coalesce(e.aggregate_id, ''),
  'Version', coalesce(e.version, 0), 'Payload', encode(e.payload, 'base64'), 'ContentType', e.content_type,
  'Headers', e.headers, 'Traceparent', e.traceparent, 'Supersedes', q.supersedes,
  'Delay', CASE WHEN isfinite(q.available_at) THEN -- it waits
    cast(extract(epoch FROM q.available_at - e.created_at) * 1000000000 AS bigint) END) ORDER BY e.seq), '[]') AS text)
FROM outbox_events e LEFT JOIN outbox_queue q USING (id)
`

// appendedSQL finds the events of its own transaction. now() is when the transaction began. It has
// the precision of a microsecond, and Append stores it with each event, also within a savepoint.
const appendedSQL = eventsSQL + `WHERE e.created_at = now()`

const committedSQL = eventsSQL + `WHERE (e.aggregate, e.aggregate_id) = (cast($1 AS text), cast($2 AS text))`

// Appended returns the events that tx has appended so far, in the order in which it did so. tx is a
// pgx.Tx, or what [outbox.FromSQL] returns. The events have their ids and content types, also those
// that Append made.
func Appended(tb testing.TB, tx outbox.Tx) []outbox.Event {
	tb.Helper()
	text, err := queryText(tb.Context(), tx, appendedSQL)
	return parse(tb, text, err)
}

// RequireAppended requires that the committed events of an aggregate have these topics, in the order
// in which they were appended, and returns them. It also finds events that are published, until they
// are pruned. Delay and Supersedes are right only until a relay or an operator has touched the event.
// Use an aggregate of its own in each test: then tests may share a database.
func RequireAppended(tb testing.TB, pool *pgxpool.Pool, aggregate, aggregateID string, topics ...string) []outbox.Event {
	tb.Helper()
	var text string
	err := pool.QueryRow(tb.Context(), committedSQL, aggregate, aggregateID).Scan(&text)
	events := parse(tb, text, err)
	var have []string
	for _, e := range events {
		have = append(have, e.Topic)
	}
	if !slices.Equal(have, topics) {
		tb.Fatalf("%s %s has appended %q, want %q", aggregate, aggregateID, have, topics)
	}
	return events
}

func parse(tb testing.TB, text string, err error) (events []outbox.Event) {
	tb.Helper()
	if err == nil {
		err = json.Unmarshal([]byte(text), &events)
	}
	if err != nil {
		tb.Fatalf("reading what was appended: %v", err)
	}
	return events
}

// queryText runs a query of one text.
func queryText(ctx context.Context, tx outbox.Tx, query string) (text string, err error) {
	switch tx := tx.(type) {
	case interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}:
		err = tx.QueryRow(ctx, query).Scan(&text)
		return text, err
	case interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}:
		rows, err := tx.QueryContext(ctx, query)
		if err != nil {
			return "", err
		}
		defer func() { _ = rows.Close() }()
		if !rows.Next() {
			return "", errors.Join(rows.Err(), errors.New("no row"))
		}
		return text, rows.Scan(&text)
	default:
		return "", fmt.Errorf("a %T cannot be read: give a pgx.Tx or what outbox.FromSQL returns", tx)
	}
}
