package outbox_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/outboxtest"
)

// TestP1AnInvalidEventLeavesTheTransactionAsItWas: the error names the field, and the transaction
// goes on and commits.
func TestP1AnInvalidEventLeavesTheTransactionAsItWas(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	tests := []struct {
		field, name string
		invalidate  func(*outbox.Event)
	}{
		{"Topic", "none", func(e *outbox.Event) { e.Topic = "" }},
		{"Topic", "too long", func(e *outbox.Event) { e.Topic = strings.Repeat("é", 128) }},
		{"Topic", "NUL", func(e *outbox.Event) { e.Topic = "order\x00created" }},
		{"Destination", "too long", func(e *outbox.Event) { e.Destination = strings.Repeat("é", 128) }},
		{"Topic", "not UTF-8", func(e *outbox.Event) { e.Topic = "order\xff" }},
		{"Aggregate", "none with an id", func(e *outbox.Event) { e.Aggregate = "" }},
		{"Aggregate", "too long", func(e *outbox.Event) { e.Aggregate = strings.Repeat("x", 256) }},
		{"AggregateID", "none with an aggregate", func(e *outbox.Event) { e.AggregateID = "" }},
		{"AggregateID", "too long", func(e *outbox.Event) { e.AggregateID = strings.Repeat("x", 3200) }},
		{"AggregateID", "NUL", func(e *outbox.Event) { e.AggregateID = "\x00" }},
		{"Version", "none with an aggregate", func(e *outbox.Event) { e.Version = 0 }},
		{"Version", "negative", func(e *outbox.Event) { e.Version = -1 }},
		{"Version", "too great", func(e *outbox.Event) { e.Version = math.MaxInt32 + 1 }},
		{"Version", "without an aggregate", func(e *outbox.Event) { e.Aggregate, e.AggregateID = "", "" }},
		{"Supersedes", "without an aggregate", func(e *outbox.Event) {
			e.Aggregate, e.AggregateID, e.Version, e.Supersedes = "", "", 0, true
		}},
		{"Payload", "nil", func(e *outbox.Event) { e.Payload = nil }},
		{"Payload", "too long", func(e *outbox.Event) { e.Payload = make([]byte, 256<<10+1) }},
		{"ContentType", "too long", func(e *outbox.Event) { e.ContentType = strings.Repeat("x", 256) }},
		{"ContentType", "not UTF-8", func(e *outbox.Event) { e.ContentType = "\xff" }},
		{"Headers", "no name", func(e *outbox.Event) { e.Headers = map[string]string{"": "x"} }},
		{"Headers", "a long name", func(e *outbox.Event) { e.Headers = map[string]string{strings.Repeat("x", 256): ""} }},
		{"Headers", "NUL", func(e *outbox.Event) { e.Headers = map[string]string{"a": "\x00"} }},
		{"Headers", "not UTF-8", func(e *outbox.Event) { e.Headers = map[string]string{"a": "\xff"} }},
		{"Headers", "too long", func(e *outbox.Event) { e.Headers = map[string]string{"a": strings.Repeat("x", 60<<10)} }},
		{"Headers", "that route", func(e *outbox.Event) { e.Headers = map[string]string{"CC": "ann@example.com"} }},
		{"Headers", "of the consumer", func(e *outbox.Event) { e.Headers = map[string]string{"retry-count": "1"} }},
		{"Traceparent", "as a header", func(e *outbox.Event) { e.Headers = map[string]string{"TRACEPARENT": "x"} }},
		{"Traceparent", "too long", func(e *outbox.Event) { e.Traceparent = strings.Repeat("0", 65) }},
		{"Traceparent", "NUL", func(e *outbox.Event) { e.Traceparent = "\x00" }},
		{"Delay", "negative", func(e *outbox.Event) { e.Delay = -time.Nanosecond }},
		{"Delay", "336h0m0.000000001s, more than 336h0m0s", func(e *outbox.Event) { e.Delay = 14*24*time.Hour + 1 }},
	}
	for _, test := range tests {
		t.Run(test.field+" "+test.name, func(t *testing.T) {
			t.Parallel()
			invalid := created(t.Name(), 2)
			test.invalidate(&invalid)
			inTx(t, pool, func(tx pgx.Tx) error {
				err := outbox.Append(t.Context(), tx, created(t.Name(), 1), invalid)
				if !errors.Is(err, outbox.ErrInvalid) || !strings.Contains(err.Error(), "event 1: ") || !strings.Contains(err.Error(), test.field) {
					t.Errorf("error %v, want that %s of event 1 is invalid", err, test.field)
				}
				if events := outboxtest.Appended(t, tx); len(events) != 0 {
					t.Errorf("appended %d events", len(events))
				}
				return outbox.Append(t.Context(), tx, created(t.Name(), 1))
			})
		})
	}
}

// TestTheLimitsAreInclusive, and the tables accept the same.
func TestTheLimitsAreInclusive(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	long := strings.Repeat("x", 255)
	inTx(t, pool, func(tx pgx.Tx) error {
		return outbox.Append(t.Context(), tx, outbox.Event{
			Topic: long, Destination: long, Aggregate: long, AggregateID: long, Version: math.MaxInt32, Payload: make([]byte, 256<<10),
			// As JSON: {"x…x":"<<…"}, where each < is \u003c, and " is \".
			ContentType: long, Headers: map[string]string{long: strings.Repeat("<", (60<<10-255-7)/6)},
			Traceparent: strings.Repeat("0", 64), Delay: 14 * 24 * time.Hour,
		})
	})
}

func TestTooManyEventsAreInvalid(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	events := make([]outbox.Event, 1001)
	for i := range events {
		events[i] = created("17", i+1)
	}
	inTx(t, pool, func(tx pgx.Tx) error {
		if err := outbox.Append(t.Context(), tx, events...); !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("error %v, want %v", err, outbox.ErrInvalid)
		}
		return outbox.Append(t.Context(), tx, events[:1000]...)
	})
	if n := count(t, pool, "outbox_queue"); n != 1000 {
		t.Errorf("%d events, want 1,000", n)
	}
}
