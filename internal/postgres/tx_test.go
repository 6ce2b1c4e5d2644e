package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a table whose constraint is checked at commit, so that a commit can fail.
var notes = postgres.Migrations{Command: "test", Files: fstest.MapFS{"00001_notes.sql": {Data: []byte(`
-- +goose Up
CREATE TABLE notes (id int PRIMARY KEY, follows int REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED);
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
	return openNotebook(t, observer, url), url
}

func openNotebook(t *testing.T, observer *postgres.DB, url string) notebook {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return notebook{t, db, observer}
}

// want checks how many notes are committed, and that the connection works.
func (n notebook) want(notes int) {
	n.Helper()
	if got := count(n.T, n.observer); got != notes {
		n.Errorf("%d notes, want %d", got, notes)
	}
	if got := count(n.T, n.db); got != notes {
		n.Errorf("%d notes, seen by the connection of the transaction, want %d", got, notes)
	}
	if got := n.db.Acquired(); got != 0 {
		n.Errorf("%d connections are in use, want none", got)
	}
}

// session returns the server's process id of the connection.
func (n notebook) session() (pid int) {
	n.Helper()
	err := n.db.InTx(context.WithoutCancel(n.Context()), func(tx pgx.Tx) (err error) {
		pid, err = readOne(n.Context(), tx, "SELECT pg_backend_pid()", nil, pgx.RowTo[int])
		return err
	})
	if err != nil {
		n.Fatal(err)
	}
	return pid
}

// write writes a note.
func write(ctx context.Context, tx pgx.Tx, id int) error {
	return postgres.Write(ctx, tx, "writing a note", "INSERT INTO notes (id) VALUES (@id)", postgres.Args{"id": id})
}

// transaction writes a note in a transaction, and then calls then in the same transaction.
type transaction func(ctx context.Context, db *postgres.DB, id int, then func() error) error

// transactions are all ways to begin one that can write.
var transactions = map[string]transaction{
	"InTx": func(ctx context.Context, db *postgres.DB, id int, then func() error) error {
		return db.InTx(ctx, func(tx pgx.Tx) error {
			if err := write(ctx, tx, id); err != nil {
				return err
			}
			return then()
		})
	},
	"InGorm": func(ctx context.Context, db *postgres.DB, id int, then func() error) error {
		return db.InGorm(ctx, func(tx *gorm.DB) error {
			if err := tx.Exec("INSERT INTO notes (id) VALUES (?)", id).Error; err != nil {
				return err
			}
			return then()
		})
	},
}

func forEachTransaction(t *testing.T, test func(t *testing.T, n notebook, in transaction)) {
	t.Helper()
	for name, in := range transactions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := newNotebook(t)
			test(t, n, in)
		})
	}
}

func count(t *testing.T, db *postgres.DB) (n int) {
	t.Helper()
	err := db.InSnapshot(t.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT count(*) FROM notes").Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestATransactionCommitsAllOrNothing(t *testing.T) {
	t.Parallel()
	errBusiness := errors.New("business says no")
	for name, test := range map[string]struct {
		then  func(cancel context.CancelFunc) error
		notes int
		err   error
	}{
		"nil commits":         {then: func(context.CancelFunc) error { return nil }, notes: 1},
		"an error rolls back": {then: func(context.CancelFunc) error { return errBusiness }, err: errBusiness},
		"a context that ends before the commit rolls back": {
			then: func(cancel context.CancelFunc) error { cancel(); return nil },
			err:  context.Canceled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachTransaction(t, func(t *testing.T, n notebook, in transaction) {
				before := n.session()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := in(ctx, n.db, 1, func() error { return test.then(cancel) })
				if !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				n.want(test.notes)
				if ctx.Err() == nil && n.session() != before {
					t.Error("the connection was thrown away, and nothing was wrong with it")
				}
			})
		})
	}
}

func TestATransactionRollsBackAndPassesOnAPanic(t *testing.T) {
	t.Parallel()
	forEachTransaction(t, func(t *testing.T, n notebook, in transaction) {
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not reach the caller")
				}
			}()
			_ = in(t.Context(), n.db, 1, func() error { panic("boom") })
		}()
		n.want(0)
	})
}

// TestAPanicWithHalfAnAnswerRead: the rest of the answer must not reach the next transaction.
func TestAPanicWithHalfAnAnswerRead(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	func() {
		defer func() { _ = recover() }()
		_ = n.db.InTx(t.Context(), func(tx pgx.Tx) error {
			if err := write(t.Context(), tx, 1); err != nil {
				t.Error(err)
			}
			_, err := readOne(t.Context(), tx, "SELECT generate_series(1, 100000)", nil,
				func(pgx.CollectableRow) (int, error) { panic("boom") })
			return err
		})
		t.Error("no panic")
	}()
	n.want(0)
}

// TestAnEndedTransactionRefusesToWrite: its pgx.Tx or *gorm.DB may outlive it.
func TestAnEndedTransactionRefusesToWrite(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"committed": nil, "rolled back": errors.New("business says no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := newNotebook(t)
			var byPgx pgx.Tx
			if err := n.db.InTx(t.Context(), func(tx pgx.Tx) error { byPgx = tx; return end }); !errors.Is(err, end) {
				t.Fatal(err)
			}
			if err := write(t.Context(), byPgx, 1); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("error %v, want %v", err, pgx.ErrTxClosed)
			}
			var byGorm *gorm.DB
			if err := n.db.InGorm(t.Context(), func(tx *gorm.DB) error { byGorm = tx; return end }); !errors.Is(err, end) {
				t.Fatal(err)
			}
			if err := byGorm.WithContext(t.Context()).Exec("INSERT INTO notes (id) VALUES (1)").Error; !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("error %v, want %v", err, sql.ErrTxDone)
			}
			n.want(0)
		})
	}
}

// TestTransactionsAreReadCommitted whatever the default of the role is. The other commit comes
// between two reads.
func TestTransactionsAreReadCommitted(t *testing.T) {
	t.Parallel()
	observer, url := postgrestest.Migrated(t, notes)
	n := openNotebook(t, observer, url+"&default_transaction_isolation=serializable")
	for name, read := range map[string]func(between func() error) (before, after int, err error){
		"InTx": func(between func() error) (before, after int, err error) {
			err = n.db.InTx(t.Context(), func(tx pgx.Tx) error {
				const query = "SELECT count(*) FROM notes"
				return errors.Join(tx.QueryRow(t.Context(), query).Scan(&before), between(), tx.QueryRow(t.Context(), query).Scan(&after))
			})
			return before, after, err
		},
		"InGorm": func(between func() error) (before, after int, err error) {
			err = n.db.InGorm(t.Context(), func(tx *gorm.DB) error {
				const query = "SELECT count(*) FROM notes"
				return errors.Join(tx.Raw(query).Scan(&before).Error, between(), tx.Raw(query).Scan(&after).Error)
			})
			return before, after, err
		},
	} {
		before, after, err := read(func() error {
			return observer.InTx(t.Context(), func(tx pgx.Tx) error {
				return postgres.Write(t.Context(), tx, "writing a note", "INSERT INTO notes SELECT count(*) FROM notes", nil)
			})
		})
		if err != nil || after != before+1 {
			t.Errorf("%s: %d notes and then %d, want one more; error %v", name, before, after, err)
		}
	}
}

func TestASnapshotCannotWrite(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	err := n.db.InSnapshot(t.Context(), func(tx pgx.Tx) error { return write(t.Context(), tx, 1) })
	if !isState(err, "25006") {
		t.Errorf("error %v, want that the transaction is read-only", err)
	}
	n.want(0)
}

// TestASnapshotSeesOneMoment although the other commit came between its two reads.
func TestASnapshotSeesOneMoment(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	err := n.db.InSnapshot(t.Context(), func(tx pgx.Tx) error {
		for range 2 {
			seen, err := readOne(t.Context(), tx, "SELECT count(*) FROM notes", nil, pgx.RowTo[int])
			if err != nil || seen != 0 {
				t.Errorf("%d notes, want none; error %v", seen, err)
			}
			err = n.observer.InTx(t.Context(), func(tx pgx.Tx) error {
				return postgres.Write(t.Context(), tx, "writing a note", "INSERT INTO notes SELECT count(*) FROM notes", nil)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.want(2)
}
