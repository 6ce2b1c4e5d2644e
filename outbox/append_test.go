package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/outboxtest"
)

// all has every field, and none.
func all(id string) []outbox.Event {
	return []outbox.Event{
		{
			Topic: "order.line-added", Aggregate: "order", AggregateID: id, Version: 3, Payload: []byte("\x00\x01\xff"),
			ContentType: "application/protobuf", Headers: map[string]string{"tenant": `a "b" <ü>`, "empty": ""},
			Supersedes: true, ID: uuid.MustParse("00000000-0000-4000-8000-000000000001"), Delay: 1500 * time.Millisecond,
		},
		{Topic: "tick", Destination: "clock ü", Payload: []byte{}},
	}
}

// wantAll checks what all has become: Append fills in an ID and a ContentType.
func wantAll(t *testing.T, got []outbox.Event, id string) {
	t.Helper()
	want := all(id)
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	want[1].ID, want[1].ContentType = got[1].ID, "application/json"
	if got[1].ID.Version() != 7 {
		t.Errorf("made the id %s, want a UUIDv7", got[1].ID)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// TestAppendWorksInEveryModeOfPgx, also through database/sql, and whatever isolation the role has.
func TestAppendWorksInEveryModeOfPgx(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	for _, mode := range modes {
		for _, isolation := range []string{"read%20committed", "repeatable%20read", "serializable"} {
			t.Run(mode+" "+isolation, func(t *testing.T) {
				t.Parallel()
				url := withSetting(url, "default_query_exec_mode="+mode+"&default_transaction_isolation="+isolation)
				pool, db := dbtest.Pool(t, url), openSQL(t, url)
				for range 2 { // the second time, the mode may have the statement
					tx := begin(t, pool)
					must(t, outbox.Append(t.Context(), tx, all(t.Name())...))
					wantAll(t, outboxtest.Appended(t, tx), t.Name())
					must(t, tx.Rollback(t.Context()))
					sqlTx, err := db.BeginTx(t.Context(), nil)
					must(t, err)
					must(t, outbox.Append(t.Context(), outbox.FromSQL(sqlTx), all(t.Name())...))
					wantAll(t, outboxtest.Appended(t, outbox.FromSQL(sqlTx)), t.Name())
					must(t, sqlTx.Rollback())
				}
			})
		}
	}
}

// TestP2WhatIsRolledBackNeverExisted, and what is committed does.
func TestP2WhatIsRolledBackNeverExisted(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	for _, commit := range []bool{false, true} {
		want := 0
		tx := begin(t, pool)
		must(t, outbox.Append(t.Context(), tx, all("17")...))
		if commit {
			want = 2
			must(t, tx.Commit(t.Context()))
		} else {
			must(t, tx.Rollback(t.Context()))
		}
		log, queue := count(t, pool, "outbox_events"), count(t, pool, "outbox_queue")
		if log != want || queue != want {
			t.Errorf("committed %t: %d events in the log and %d in the queue, want %d", commit, log, queue, want)
		}
	}
}

// TestAnyEventIsStoredAsItWas draws texts and bytes. jsonb would change or refuse most of the
// payloads of the list.
func TestAnyEventIsStoredAsItWas(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	payload := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.SampledFrom([]string{
		`{"b":1,"a":1e3,"a":2.50}`, " [ 1 ,\n2 ]\n", `"\u0000"`, `"\ud800"`, `[1e131000]`, `'";--\'$1`, "",
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "\x08\x00\x12\x03a\x00\xff",
	}), func(s string) []byte { return []byte(s) }))
	text := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 }), 1, 20, 255)
	rapid.Check(t, func(rt *rapid.T) {
		want := outbox.Event{
			Topic: text.Filter(func(s string) bool { return s != "*" }).Draw(rt, "topic"), Aggregate: text.Draw(rt, "aggregate"), AggregateID: text.Draw(rt, "id"), Version: 1,
			Payload: payload.Draw(rt, "payload"), ContentType: text.Draw(rt, "content type"),
			Headers: map[string]string{text.Draw(rt, "name"): text.Draw(rt, "value")}, ID: uuid.New(),
		}
		tx := begin(t, pool)
		must(t, outbox.Append(t.Context(), tx, want))
		if got := outboxtest.Appended(t, tx); len(got) != 1 || !bytes.Equal(got[0].Payload, want.Payload) || !reflect.DeepEqual(got[0], want) {
			rt.Errorf("got %+v, want %+v", got, want)
		}
		must(t, tx.Rollback(t.Context()))
	})
}

// TestP11TheDelayIsByTheDatabasesClock: the event is due so much after its transaction began.
func TestP11TheDelayIsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	inTx(t, pool, func(tx pgx.Tx) error {
		now, later := created("17", 1), created("18", 1)
		later.Delay = 90 * time.Minute
		return outbox.Append(t.Context(), tx, now, later)
	})
	const onTime = `outbox_queue q JOIN outbox_events e USING (id)
		WHERE q.available_at = q.due_since AND q.due_since = e.created_at + CASE q.aggregate_id WHEN '18' THEN interval '90 minutes' ELSE '0' END`
	if n := count(t, pool, onTime); n != 2 {
		t.Errorf("%d of 2 events are due when they should be", n)
	}
}

// TestADuplicateIsNamed by its id, or by its aggregate and version, also when it is published.
func TestADuplicateIsNamed(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	pool := dbtest.Pool(t, url)
	first := created("17", 3)
	first.ID = uuid.New()
	inTx(t, pool, func(tx pgx.Tx) error { return outbox.Append(t.Context(), tx, first) })
	_, err := pool.Exec(t.Context(), "DELETE FROM outbox_queue")
	must(t, err)
	sameID := created("18", 1)
	sameID.ID = first.ID
	for want, e := range map[string]outbox.Event{
		"(id)=(" + first.ID.String() + ")": sameID, "(aggregate, aggregate_id, version)=(order, 17, 3)": created("17", 3),
	} {
		check := func(err error) {
			t.Helper()
			if !errors.Is(err, outbox.ErrDuplicate) || err.Error() != outbox.ErrDuplicate.Error()+": "+want {
				t.Errorf("error %v, want %v with %s", err, outbox.ErrDuplicate, want)
			}
		}
		check(outbox.Append(t.Context(), begin(t, pool), e))
		tx, err := openSQL(t, url).BeginTx(t.Context(), nil)
		must(t, err)
		check(outbox.Append(t.Context(), outbox.FromSQL(tx), e))
		must(t, tx.Rollback())
	}
}

// otherError is like an error of the driver pq: it has a method SQLState.
type otherError struct{ code string }

func (e otherError) Error() string    { return "pq: " + e.code }
func (e otherError) SQLState() string { return e.code }

func TestTheErrorsOfAnotherDriverAreUnderstood(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"23505": outbox.ErrDuplicate, "42P01": outbox.ErrNoSchema, "42703": outbox.ErrNoSchema, "57014": nil,
	} {
		err := outbox.Append(t.Context(), failingTx{fmt.Errorf("exec: %w", otherError{code})}, created("17", 1))
		if cause, ok := errors.AsType[otherError](err); !ok || cause.code != code || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", code, err, want)
		}
	}
}

func TestAppendFailsAfterTheTransactionEnded(t *testing.T) {
	t.Parallel()
	tx := begin(t, dbtest.Migrated(t))
	must(t, tx.Commit(t.Context()))
	if err := outbox.Append(t.Context(), tx, created("17", 1)); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("error %v, want %v", err, pgx.ErrTxClosed)
	}
}

// TestNoEventIsNoStatement: a statement would fail.
func TestNoEventIsNoStatement(t *testing.T) {
	t.Parallel()
	must(t, outbox.Append(t.Context(), failingTx{errors.New("a statement")}))
}

// TestP1GormAppendsOnlyInATransaction: gorm has one type for a transaction and for a pool. Only a
// transaction has Commit.
func TestP1GormAppendsOnlyInATransaction(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	pool, db := dbtest.Pool(t, url), openSQL(t, url)
	err := outbox.Append(t.Context(), outbox.FromGorm(db), created("17", 1))
	if !errors.Is(err, outbox.ErrInvalid) || !strings.Contains(err.Error(), "*sql.DB is no transaction") {
		t.Errorf("outside a transaction: error %v, want %v", err, outbox.ErrInvalid)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	must(t, outbox.Append(t.Context(), outbox.FromGorm(tx), created("18", 1)))
	must(t, tx.Commit())
	if n := count(t, pool, "outbox_events WHERE aggregate_id = '18'"); n != 1 || count(t, pool, "outbox_events") != n {
		t.Errorf("%d events of the transaction", n)
	}
}

// bunTx is as bun.Tx: it writes parameters only for its own placeholders into the text.
type bunTx struct{ *sql.Tx }

func (t bunTx) ExecContext(ctx context.Context, query string, _ ...any) (sql.Result, error) {
	return t.Tx.ExecContext(ctx, query)
}

// TestATransactionWithoutParametersIsNamed, and what to use instead.
func TestATransactionWithoutParametersIsNamed(t *testing.T) {
	t.Parallel()
	tx, err := openSQL(t, migratedURL(t)).BeginTx(t.Context(), nil)
	must(t, err)
	err = outbox.Append(t.Context(), outbox.FromSQL(bunTx{tx}), created("17", 1))
	if err == nil || !strings.Contains(err.Error(), "outbox_test.bunTx does not send the parameters of a statement, use the *sql.Tx inside it") {
		t.Errorf("error %v", err)
	}
	must(t, tx.Rollback())
}

// failingTx fails each statement.
type failingTx struct{ err error }

func (t failingTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, t.err
}
func (failingTx) Commit(context.Context) error { return nil }
