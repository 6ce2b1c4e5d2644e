// Package store is everything that touches the outbox's tables: the statements of the relay, of the
// janitor, and what operators need to run theirs. The tables are described in outbox/schema.sql.
//
// An event is done if and only if it has no row in outbox_queue. The tables determine its status:
//
//	pending ──Claim──► in_progress ──Settle──► published
//	   ▲                    │
//	   ├───────Settle───────┤
//	   │                    └──Settle──► failed ──► discarded (by an operator)
//	   └─────────────(an operator)──────────┘
//
//	pending, failed ──Claim (of a newer event that supersedes it)──► superseded
//	pending, if its topic is paused ──(an operator)──► discarded
//	superseded, discarded ──Settle (of a late confirm)──► published
//
// # Claims
//
// A claim is a lease: it ends after a time, and it has a token that no other claim has. It changes
// no event that it takes. Claims run one after the other; each takes milliseconds. A claim takes an
// event only if it is the next of its aggregate (next.go), and none is in flight. So the events of
// an aggregate are published in the order of their versions, with any number of relays. A failed
// event blocks the later events of its aggregate until it is replayed or discarded, or superseded.
//
// A confirm needs no lease: the destination's answer is a fact, whoever records it. Nor does a pause
// of a topic. Whatever else Settle writes about events does nothing if the claim is gone: the next
// claim deletes one whose lease has ended.
//
// # Plans
//
// A plan that PostgreSQL makes from the statistics of an empty table reads all of a full one. So no
// statement leaves it a choice: it finds a row by LATERAL (… LIMIT 1) or by = ANY (ARRAY(SELECT
// …)), and not by a join whose order depends on how many rows somebody expects.
//
// # Modes of pgx
//
// The statements work in each mode of pgx's queries, also in those for PgBouncer (exec and
// simple_protocol). These cannot encode arrays. So a list of ids is one text, and a list of rows is
// one text of JSON.
//
// # Clocks
//
// Every time in the tables is the database's. Callers give durations only.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/propagation"

	"example.com/transactional-outbox/outbox/publish"
)

// Store is one outbox: the tables in the schema that the pool's search_path names.
type Store struct {
	Logger *slog.Logger // of the janitor

	pool  *pgxpool.Pool
	floor floor
	// What the last claim has found. If it is nothing, the next one leaves out the steps of aside.go.
	someWait, someTopics atomic.Bool
}

// New returns the outbox in the database of a pool.
func New(pool *pgxpool.Pool) *Store {
	s := &Store{Logger: slog.Default(), pool: pool}
	s.someWait.Store(true)
	s.someTopics.Store(true)
	return s
}

// SQLState returns the code of a database's error, or "". The driver may be another one than pgx,
// so the code comes from a method that all of them have.
func SQLState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// IsNoSchema reports whether missing tables or columns have caused an error.
func IsNoSchema(err error) bool {
	code := SQLState(err)
	return code == "42P01" || code == "42703" // undefined_table, undefined_column
}

// Event is one event with its state.
type Event struct {
	ID                     uuid.UUID
	Seq                    int64
	Topic, Destination     string // Destination is empty: the publisher's own
	Aggregate, AggregateID string // empty: the event has no order
	Version                int
	Supersedes             bool
	Payload                []byte
	ContentType            string
	Headers                map[string]string
	Traceparent            string

	RetryCount   int
	EndedSession bool // its last failure is that the destination has ended a session because of it
	CreatedAt    time.Time
	Age          float64 // seconds since CreatedAt, by the database, when it was read
}

// PauseName is the name under which the event's topic pauses, as outbox_queue and outbox_topics
// have it.
func (e Event) PauseName() string {
	if e.Destination == "" {
		return e.Topic
	}
	return e.Destination + "/" + e.Topic
}

// ParseHeaders returns the headers of an event, as outbox_events stores them. Append stores text
// only. What a person has stored there, for example a number, is returned as it is written.
func ParseHeaders(stored []byte) map[string]string {
	if stored == nil {
		return nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(stored, &values) != nil {
		return nil
	}
	headers := make(map[string]string, len(values))
	for name, value := range values {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		headers[name] = text
	}
	return headers
}

// The headers of the W3C trace context.
const (
	TraceHeader = "traceparent"
	StateHeader = "tracestate"
)

// Message returns the event as the service appID publishes it.
func (e Event) Message(appID string) publish.Message {
	headers := make(map[string]any, len(e.Headers)+1)
	for name, value := range e.Headers {
		headers[name] = value
	}
	if e.Traceparent != "" {
		headers[TraceHeader] = e.Traceparent
	}
	return publish.Message{
		ID: e.ID.String(), Topic: e.Topic, Destination: e.Destination, Group: e.AggregateID, ContentType: e.ContentType,
		AppID: appID, Timestamp: e.CreatedAt, Headers: headers, Body: e.Payload,
	}
}

// TraceOf returns the W3C trace context of ctx: nothing outside a trace.
func TraceOf(ctx context.Context) propagation.MapCarrier {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier
}
