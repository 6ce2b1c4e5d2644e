package inbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// TestP5RecordTellsTheFirst in a transaction of pgx, and in one of database/sql.
func TestP5RecordTellsTheFirst(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "default_query_exec_mode="+mode)
			for i, want := range []bool{true, true, false} { // the first one rolls back
				tx, err := f.pool.Begin(t.Context())
				must(t, err)
				if first, err := inbox.Record(t.Context(), tx, "a", "1"); err != nil || first != want {
					t.Errorf("first %t, want %t: %v", first, want, err)
				}
				if i == 0 {
					err = tx.Rollback(t.Context())
				} else {
					err = tx.Commit(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			}
			db := stdlib.OpenDBFromPool(f.pool)
			defer func() { _ = db.Close() }()
			for id, want := range map[string]bool{"1": false, "2": true} {
				tx, err := db.BeginTx(t.Context(), nil)
				must(t, err)
				if first, err := inbox.Record(t.Context(), outbox.FromSQL(tx), "a", id); err != nil || first != want {
					t.Errorf("database/sql: %s is first %t, want %t: %v", id, first, want, err)
				}
				must(t, tx.Commit())
			}
			f.handle(f.inbox("a"), "1", "2")
			f.handle(f.inbox("b"), "1")
			if n := len(f.effects()); n != 1 {
				t.Errorf("%d effects, want that of the other consumer", n)
			}
		})
	}
}

// TestP9IDsAreText of 1 to 255 bytes. What the table cannot hold is found before it reaches the
// transaction, so the transaction can go on. Such a message is a dead letter at once. A consumer's
// name that cannot work is not the message's fault.
func TestP9IDsAreText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for id, valid := range map[string]bool{
		"1": true, "ü": true, strings.Repeat("x", 255): true, "line\nbreak \u2028 \x01 \ufffd": true, `{"a":[null]}`: true,
		"": false, strings.Repeat("x", 256): false, "a\x00b": false, "\xff": false, "\xed\xa0\x80": false,
	} {
		check := func(what string, err error) {
			t.Helper()
			field, code := "message id", "malformed"
			if what == "consumer" || what == "Ready" {
				field, code = "consumer's name", ""
			}
			if valid && err != nil || !valid && (!errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), field) || deadLetterCode(err) != code) {
				t.Errorf("%s with id %q: %v", what, id, err)
			}
		}
		check("Handle", f.inbox("a").Handle(t.Context(), []message{"good", message(id)}))
		check("consumer", f.inbox(id).Handle(t.Context(), []message{"good"}))
		_, err := f.inbox(id).Ready(t.Context())
		check("Ready", err)
		must(t, pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
			_, err := inbox.Record(t.Context(), tx, "b", id)
			check("Record", err)
			return nil
		}))
		if got := f.count("SELECT count(*) FROM processed_messages WHERE message_id = $1", strings.ToValidUTF8(strings.ReplaceAll(id, "\x00", ""), "")); valid && got != 2 {
			t.Errorf("%d rows for %q, want 2", got, id)
		}
	}
}

// deadLetterCode returns the code of an error for which a consumer makes a dead letter at once.
func deadLetterCode(err error) string {
	if coded, ok := errors.AsType[interface {
		error
		DeadLetterCode() string
	}](err); ok {
		return coded.DeadLetterCode()
	}
	return ""
}

// TestAMissingTableIsSaid, if it is the inbox's and not the handler's.
func TestAMissingTableIsSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("ALTER TABLE effects RENAME TO away")
	if err := f.inbox("a").Handle(t.Context(), newMessages(1)); err == nil || errors.Is(err, inbox.ErrNoSchema) {
		t.Errorf("without the handler's table: got %v", err)
	}
	f.exec("DROP TABLE processed_messages")
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		_, err := inbox.Record(t.Context(), tx, "a", "1")
		return err
	})
	for what, err := range map[string]error{
		"Record": err,
		"Handle": f.inbox("a").Handle(t.Context(), newMessages(1)),
		"Run":    f.inbox("a").Run(t.Context()),
	} {
		if !errors.Is(err, inbox.ErrNoSchema) {
			t.Errorf("%s: got %v, want %v", what, err, inbox.ErrNoSchema)
		}
	}
}

// A compile-time proof: a transaction is taken.
var _ inbox.Tx = pgx.Tx(nil)

// TestP5ARecordedMessageIsOnDisk after the commit, also for a user who has turned that off: it is
// acknowledged, so only this database has it.
func TestP5ARecordedMessageIsOnDisk(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"off": "on", "local": "local", "remote_apply": "remote_apply"} {
		f := newFixture(t, "synchronous_commit="+set)
		for _, first := range []bool{true, false} {
			must(t, pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
				if got, err := inbox.Record(t.Context(), tx, "a", "1"); err != nil || got != first {
					t.Errorf("first %t, want %t: %v", got, first, err)
				}
				var got string
				err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got)
				if got != want {
					t.Errorf("first %t: %s has become %s, want %s", first, set, got, want)
				}
				return err
			}))
		}
	}
}

// TestMigrateRefusesATableOfAnotherShape, and says what to do.
func TestMigrateRefusesATableOfAnotherShape(t *testing.T) {
	t.Parallel()
	f := fixture{t, dbtest.Pool(t, dbtest.URL(t))}
	f.exec("CREATE TABLE processed_messages (message_id uuid PRIMARY KEY)")
	if err := inbox.Migrate(t.Context(), f.pool); err == nil || !strings.Contains(err.Error(), "rename") {
		t.Errorf("got %v", err)
	}
	f.exec("INSERT INTO processed_messages VALUES (gen_random_uuid())") // it is as it was
}

// TestKnownMessagesLockTheirRows. The lock is written to the log, so COMMIT waits as for a new one.
// test/library/outbox has the standby.
func TestKnownMessagesLockTheirRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	batch := newMessages(2)
	locked := func() int { return f.count("SELECT count(*) FROM processed_messages WHERE xmax <> 0") }
	f.handle(f.inbox("a"), batch...)
	if n := locked(); n != 0 {
		t.Errorf("%d new rows are locked", n)
	}
	f.handle(f.inbox("a"), batch...)
	if n := locked(); n != len(batch) || len(f.effects()) != len(batch) {
		t.Errorf("%d known rows were locked, want %d; effects %q", n, len(batch), f.effects())
	}
}

func TestReadySaysWhetherTheDatabaseTakesARow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := f.inbox("a")
	var before, after time.Time
	clock := func(into *time.Time) {
		must(t, f.pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(into))
	}
	clock(&before)
	now, err := in.Ready(t.Context())
	clock(&after)
	if err != nil || now.Before(before) || now.After(after) || f.rows() != 0 {
		t.Errorf("ready at %s, between %s and %s: %v; %d rows", now, before, after, err, f.rows())
	}
	f.exec("ALTER TABLE processed_messages RENAME TO away")
	if _, err := in.Ready(t.Context()); !errors.Is(err, inbox.ErrNoSchema) {
		t.Errorf("got %v, want %v", err, inbox.ErrNoSchema)
	}
	f.exec("ALTER TABLE away RENAME TO processed_messages; ALTER TABLE processed_messages ADD CHECK (consumer <> 'a')")
	if _, err := in.Ready(t.Context()); err == nil {
		t.Error("ready, but no row can be written")
	}
}
