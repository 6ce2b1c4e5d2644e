// These tests prove what the transactions of a service keep: all or nothing, a deadline, no COMMIT that
// is cancelled, and another server after a failover.
package postgres_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a table whose constraint is checked at commit, so that a commit can fail.
var notes = postgres.Migrations{Command: "test", Files: fstest.MapFS{"00001_notes.sql": {Data: []byte(`
-- +goose Up
CREATE TABLE notes (id int PRIMARY KEY, follows int REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE kinds (kind int);
`)}}}

// notebook is a database with one connection for transactions. So a test fails if the connection
// is not returned, or is returned while it is in a transaction.
type notebook struct {
	*testing.T
	db       *postgres.DB
	observer *postgres.DB // another pool, which sees only committed rows
}

func newNotebook(t *testing.T) (n notebook, url string) {
	t.Helper()
	observer, url := postgrestest.Migrated(t, notes)
	return notebook{t, open(t, url+"&target_session_attrs=read-write", 1), observer}, url
}

// want checks how many notes are committed, and that the connection works.
func (n notebook) want(notes int) {
	n.Helper()
	if got := read[int](n.T, n.observer, "SELECT count(*) FROM notes"); got != notes {
		n.Errorf("%d notes, want %d", got, notes)
	}
	if got := read[int](n.T, n.db, "SELECT count(*) FROM notes"); got != notes {
		n.Errorf("%d notes, seen by the connection of the transaction, want %d", got, notes)
	}
	if got := n.db.Pool().Stat().AcquiredConns(); got != 0 {
		n.Errorf("%d connections are in use, want none", got)
	}
}

func read[V any](t *testing.T, db *postgres.DB, query string) (v V) {
	t.Helper()
	check.Must(t, db.Pool().QueryRow(context.WithoutCancel(t.Context()), query).Scan(&v))
	return v
}

// write writes a note.
func write(tx *gorm.DB, id int) error { return tx.Exec("INSERT INTO notes (id) VALUES (?)", id).Error }

// writing writes a note in a transaction.
func writing(ctx context.Context, db *postgres.DB, id int) error {
	return db.InGorm(ctx, func(tx *gorm.DB) error { return write(tx, id) })
}

func TestATransactionCommitsAllOrNothing(t *testing.T) {
	t.Parallel()
	errBusiness := errors.New("business says no")
	changed := false
	for name, test := range map[string]struct {
		then  func(tx *gorm.DB, cancel context.CancelFunc) error
		notes int
		err   error
	}{
		"nil commits":         {then: func(*gorm.DB, context.CancelFunc) error { return nil }, notes: 1},
		"an error rolls back": {then: func(*gorm.DB, context.CancelFunc) error { return errBusiness }, err: errBusiness},
		"a panic rolls back":  {then: func(*gorm.DB, context.CancelFunc) error { panic(errBusiness) }, err: errBusiness},
		"a statement whose columns have changed is repeated": {then: func(tx *gorm.DB, _ context.CancelFunc) error {
			ask := func() error { return tx.Raw("SELECT kind FROM kinds").Scan(new([]int)).Error }
			if changed {
				return ask()
			}
			changed = true
			return errors.Join(ask(), tx.Exec("ALTER TABLE kinds ALTER kind TYPE bigint").Error, ask())
		}, notes: 1},
		"a context that ends before the commit rolls back": {
			then: func(_ *gorm.DB, cancel context.CancelFunc) error { cancel(); return nil },
			err:  context.Canceled,
		},
		"a context that ends before a statement is sent rolls back": {
			then: func(tx *gorm.DB, cancel context.CancelFunc) error {
				return tx.Exec("INSERT INTO notes (id) VALUES (?)", cancelling(cancel)).Error
			},
			err: context.Canceled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := newNotebook(t)
			before := read[int](t, n.db, "SELECT pg_backend_pid()")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var ended *gorm.DB
			err := recovered(func() error {
				return n.db.InGorm(ctx, func(tx *gorm.DB) error {
					ended = tx
					if err := write(tx, 1); err != nil {
						return err
					}
					return test.then(tx, cancel)
				})
			})
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			n.want(test.notes)
			if ctx.Err() == nil && read[int](t, n.db, "SELECT pg_backend_pid()") != before {
				t.Error("the connection was thrown away, and nothing was wrong with it")
			}
			if err := write(ended.WithContext(t.Context()), 2); err == nil {
				t.Error("the transaction has ended, and takes writes")
			}
		})
	}
}

// cancelling is an argument of a statement. It cancels when the driver asks for its value.
type cancelling context.CancelFunc

func (cancel cancelling) Value() (driver.Value, error) {
	cancel()
	return int64(3), nil
}

func recovered(f func() error) (err error) {
	defer func() {
		if panicked, ok := recover().(error); ok {
			err = panicked
		}
	}()
	return f()
}

// TestAFailedStatementThatIsPassedOverIsNoCommit: the server answers ROLLBACK to COMMIT if
// a statement has failed before.
func TestAFailedStatementThatIsPassedOverIsNoCommit(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	err := n.db.InGorm(t.Context(), func(tx *gorm.DB) error {
		_, _ = write(tx, 1), write(tx, 1)
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("error %v, want %v", err, pgx.ErrTxCommitRollback)
	}
	n.want(0)
}

// TestTransactionsAreReadCommitted whatever the default of the role is. The other commit comes
// between two reads.
func TestTransactionsAreReadCommitted(t *testing.T) {
	t.Parallel()
	n, url := newNotebook(t)
	db := open(t, url+"&default_transaction_isolation=serializable", 1)
	var before, after int
	err := db.InGorm(t.Context(), func(tx *gorm.DB) error {
		const query = "SELECT count(*) FROM notes"
		return errors.Join(tx.Raw(query).Scan(&before).Error, writing(t.Context(), n.observer, 1), tx.Raw(query).Scan(&after).Error)
	})
	if err != nil || before != 0 || after != 1 {
		t.Errorf("%d notes and then %d, want one more; error %v", before, after, err)
	}
}

// TestP1P6AContextThatEndsInTheCommit: the caller gives up, and the COMMIT goes on. If the driver
// cancelled it, a COMMIT that waits for a standby would become visible, and no standby would have
// it.
func TestP1P6AContextThatEndsInTheCommit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		table string
		write func(context.Context, *postgres.DB) error
		err   error
	}{
		"of a transaction": {
			table: "notes", err: context.Canceled,
			write: func(ctx context.Context, db *postgres.DB) error { return writing(ctx, db, 1) },
		},
		"of a relay that marks its e-mails": {table: "outbox_done", write: relay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, address := newNotebook(t)
			err := errors.Join(outbox.Migrate(t.Context(), n.observer.Pool()), pgx.BeginFunc(t.Context(), n.observer.Pool(), func(tx pgx.Tx) error {
				return outbox.Append(t.Context(), tx, outbox.Event{Topic: "example.com", Payload: []byte("{}")})
			}))
			check.Must(t, err)
			held := servers.HoldCommits(t, address, test.table)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			db := open(t, address, 2)
			go func() { ended <- test.write(ctx, db) }()
			held.Await()
			cancel()
			if err := <-ended; !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			db.Close() // it waits for the driver, which would cancel now
			count := func() int { return read[int](t, n.observer, "SELECT count(*) FROM "+test.table) }
			if count() != 0 {
				t.Error("it is visible before the end of its COMMIT")
			}
			held.Release()
			held.AwaitEnd()
			if count() != 1 {
				t.Error("the COMMIT was cancelled")
			}
		})
	}
}

// TestAStatementBeforeACommitIsCancelled: its connection has committed before, and commits once more.
func TestAStatementBeforeACommitIsCancelled(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	check.Must(t, writing(t.Context(), n.db, 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sleeps := func() int {
		return read[int](t, n.observer, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^SELECT pg_sleep'")
	}
	tx, err := n.db.Pool().Begin(t.Context())
	check.Must(t, err)
	ended := make(chan error)
	go func() {
		_, err := tx.Exec(ctx, "SELECT pg_sleep(600)")
		ended <- errors.Join(err, tx.Commit(t.Context()))
	}()
	check.Await(t, "the statement runs", func() bool { return sleeps() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	check.Await(t, "the statement has ended", func() bool { return sleeps() == 0 })
}

// relay publishes what is due, as notification-service does, until ctx ends.
func relay(ctx context.Context, db *postgres.DB) error {
	takes := publish.Func(func(context.Context, publish.Message) error { return nil }, publish.FuncConfig{OneDestination: true, Calls: 1})
	relay, err := outbox.NewRelay(db.Pool(), takes, outbox.RelayConfig{
		Workers: 1, DurableMarks: true, NoListen: true, ShutdownTimeout: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}
