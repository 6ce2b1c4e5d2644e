package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/propagation"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Tx is an open transaction. Every pgx.Tx is one; see [FromSQL] for database/sql and gorm. A pool
// and a connection have no Commit, so they are no Tx: a program that appends outside a transaction
// does not compile.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Commit(ctx context.Context) error // is never called
}

// appendSQL writes each event to the log and to the queue. It reads no other event and waits for
// none; the claim looks for the older events of the same aggregate.
//
//   - "new" has a row for each event. All of them come as one text, because a pool in the mode exec
//     or simple_protocol cannot send arrays, and because the statement is then the same for any
//     number of events. A payload is base64 there, which PostgreSQL decodes to the same bytes;
//   - "queue" takes the sequence number that the log has given to each event. A Delay is added to
//     the database's clock;
//   - the last part makes this transaction's commit wait for the disk, if it would not (off). Until
//     it is there, a crash of PostgreSQL forgets the transaction, but a relay could have sent the
//     event. Every other setting stays. This is the main query, because PostgreSQL runs a SELECT in
//     WITH only if something reads it.
const appendSQL = `
WITH new AS MATERIALIZED (
  SELECT * FROM json_to_recordset(cast(cast($1 AS text) AS json)) AS event (
    id uuid, topic text, destination text, aggregate text, aggregate_id text, version int, payload text, content_type text,
    headers json, supersedes boolean, delay float8, traceparent text)
), log AS (
  INSERT INTO outbox_events (id, version, aggregate, aggregate_id, topic, destination, payload, content_type, headers, traceparent)
  SELECT id, version, aggregate, aggregate_id, topic, destination, decode(payload, 'base64'), content_type, headers, traceparent
  FROM new
  RETURNING id, seq, octet_length(payload) AS bytes
), queue AS (
  INSERT INTO outbox_queue (id, seq, version, aggregate, aggregate_id, topic, bytes, supersedes, available_at, due_since)
  SELECT id, seq, version, aggregate, aggregate_id, concat_ws('/', destination, topic), bytes, supersedes, due, due
  FROM log JOIN new USING (id), LATERAL (SELECT now() + delay * interval '1 second' AS due) d
)
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`

// row is an event as appendSQL reads it. What is left out is NULL.
type row struct {
	ID          uuid.UUID         `json:"id"`
	Topic       string            `json:"topic"`
	Destination string            `json:"destination,omitempty"`
	Aggregate   string            `json:"aggregate,omitempty"`
	AggregateID string            `json:"aggregate_id,omitempty"`
	Version     int               `json:"version,omitempty"`
	Payload     []byte            `json:"payload"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers,omitempty"`
	Supersedes  bool              `json:"supersedes"`
	Delay       float64           `json:"delay"` // seconds
	Traceparent string            `json:"traceparent"`
}

// Append stores events in tx, in one statement for up to 1,000 of them. Without events it does
// nothing. When tx commits, they are in the outbox, and a relay sends them. If tx is rolled back,
// they are gone. The trace of ctx is stored with each event that has no Traceparent, even if it is
// not sampled: its traceparent, and its tracestate of up to 512 bytes as a header, unless the event
// has that header. Baggage is not stored.
//
// The order of an aggregate's events is the order of their versions, and the caller is responsible
// for them: lock the aggregate's row first (UPDATE it, or SELECT … FOR UPDATE), take the next
// version from that row, and append in the same transaction. A new row has version 1, and needs no
// lock. The lock lasts until the commit, so version 4 is not in the outbox before version 3 is.
// Without it, a relay may find and send 4 first. Append cannot check that: it does not know what
// has been sent and pruned. A gap does no harm.
//
// The errors are [ErrInvalid], [ErrNoSchema], [ErrDuplicate], or the database's own. After
// ErrInvalid the transaction is as before; after any other error it is broken, and has to be rolled
// back.
func Append(ctx context.Context, tx Tx, events ...Event) error {
	if err := checkAll(events); err != nil || len(events) == 0 {
		return err
	}
	text, err := rowsOf(events, store.TraceOf(ctx))
	if err == nil {
		_, err = tx.Exec(ctx, appendSQL, text)
	}
	return explain(err)
}

// rowsOf returns the one parameter of appendSQL.
func rowsOf(events []Event, current propagation.MapCarrier) (string, error) {
	rows := make([]row, len(events))
	for i, e := range events {
		if e.ID == uuid.Nil {
			id, err := uuid.NewV7()
			if err != nil {
				return "", err
			}
			e.ID = id
		}
		if e.ContentType == "" {
			e.ContentType = defaultContentType
		}
		if e.Traceparent == "" {
			e.Traceparent = current[store.TraceHeader]
			e.Headers = withState(e.Headers, current[store.StateHeader])
		}
		rows[i] = row{
			e.ID, e.Topic, e.Destination, e.Aggregate, e.AggregateID, e.Version, e.Payload, e.ContentType, e.Headers, e.Supersedes,
			e.Delay.Seconds(), e.Traceparent,
		}
	}
	text, err := json.Marshal(rows)
	return string(text), err
}

// maxState is how many bytes of a tracestate W3C wants carried. A longer one is dropped: with the
// other headers it could be too much.
const maxState = 512

// withState returns the headers with a tracestate, unless they have one.
func withState(headers map[string]string, state string) map[string]string {
	if state == "" || len(state) > maxState {
		return headers
	}
	for name := range headers {
		if strings.EqualFold(name, store.StateHeader) { // HTTP ignores the case
			return headers
		}
	}
	all := map[string]string{store.StateHeader: state}
	maps.Copy(all, headers)
	return all
}

// explain says what an error means for the caller of Append.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case store.IsNoSchema(err):
		return fmt.Errorf("%w: %w", ErrNoSchema, err)
	case store.SQLState(err) == "23505": // unique_violation
		return duplicateError{err}
	default:
		return fmt.Errorf("appending to the outbox: %w", err)
	}
}

// duplicateError is an ErrDuplicate, and the database's error.
type duplicateError struct{ cause error }

// Error names the id, or the aggregate and its version. The text of pgx's error has neither.
func (e duplicateError) Error() string {
	what := e.cause.Error()
	if refused, ok := errors.AsType[*pgconn.PgError](e.cause); ok {
		what = strings.TrimSuffix(strings.TrimPrefix(refused.Detail, "Key "), " already exists.")
	}
	return ErrDuplicate.Error() + ": " + what
}

func (e duplicateError) Unwrap() []error { return []error{ErrDuplicate, e.cause} }

// SQLTx is an open transaction of database/sql. A *sql.Tx is one. A *sql.DB and a *sql.Conn have no
// Commit, so they are no SQLTx.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) // for package outboxtest
	Commit() error                                                                  // is never called
}

// FromSQL returns a [Tx] for a transaction of database/sql. The driver must be for PostgreSQL, with
// parameters such as $1: use pgx's stdlib or pq. A transaction that writes parameters into the text
// itself, such as bun.Tx, does not work: use its *sql.Tx, which is bunTx.Tx. The Tx of sqlx works.
func FromSQL(tx SQLTx) Tx {
	return sqlTx{tx}
}

// FromGorm returns a [Tx] for a transaction of gorm, with or without PrepareStmt. connPool is
// tx.Statement.ConnPool. gorm has one type inside and outside a transaction, so the compiler cannot
// check it: outside, Append returns an [ErrInvalid]. [UseSchema] says how gorm gets the pool's schema.
func FromGorm(connPool any) Tx {
	if tx, ok := connPool.(SQLTx); ok {
		return FromSQL(tx)
	}
	return noTx{connPool}
}

// noTx is what gorm has outside a transaction.
type noTx struct{ connPool any }

func (n noTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, fmt.Errorf("%w: a %T is no transaction: call Append in the function of db.Transaction, with its tx", ErrInvalid, n.connPool)
}

func (noTx) Commit(context.Context) error { return nil }

type sqlTx struct{ SQLTx }

func (t sqlTx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	result, err := t.ExecContext(ctx, query, args...)
	if _, plain := t.SQLTx.(*sql.Tx); !plain && store.SQLState(err) == "42P02" { // undefined_parameter
		return pgconn.CommandTag{}, fmt.Errorf("a %T does not send the parameters of a statement, use the *sql.Tx inside it: %w", t.SQLTx, err)
	}
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := result.RowsAffected()
	return pgconn.NewCommandTag(fmt.Sprintf("EXEC %d", n)), err
}

func (t sqlTx) Commit(context.Context) error {
	return t.SQLTx.Commit()
}
