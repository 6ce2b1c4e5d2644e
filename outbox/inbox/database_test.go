package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/inbox"
)

// TestTheRolesDefaultsDoNotMatter: each transaction states what it needs.
func TestTheRolesDefaultsDoNotMatter(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		f := newFixture(t, "default_transaction_isolation", "serializable",
			"default_transaction_read_only", "on", "synchronous_commit", "off", "lock_timeout", "0", "DateStyle", "German", "default_query_exec_mode", mode)
		m, got := newMessages(1)[0], ""
		in := inbox.Once(f.pool, "a", func(ctx context.Context, tx pgx.Tx, m message) error {
			return errors.Join(effect(ctx, tx, m), tx.QueryRow(ctx, `SELECT concat_ws(', ', current_setting('transaction_isolation'),
				current_setting('lock_timeout'), current_setting('synchronous_commit'))`).Scan(&got))
		})
		f.handle(in, m)
		f.handle(in, m)
		if want := "read committed, 1s, on"; got != want || len(f.effects()) != 1 {
			t.Errorf("settings %q, want %q; effects %q", got, want, f.effects())
		}
		if now, err := in.Ready(t.Context()); err != nil || now.IsZero() {
			t.Errorf("ready at %s: %v", now, err)
		}
	}
}

// TestKnownMessagesLockTheirRows. The lock is written to the log, so COMMIT waits as for a new one.
// test/library/inbox has the standby.
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
