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
	"example.com/transactional-outbox/test/servers"
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
	observer, url := servers.Migrated(t, notes)
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
	err := n.db.InTx(context.WithoutCancel(n.Context()), func(tx *postgres.Tx) (err error) {
		pid, err = postgres.ReadOne(n.Context(), tx, "SELECT pg_backend_pid()", nil, pgx.RowTo[int])
		return err
	})
	if err != nil {
		n.Fatal(err)
	}
	return pid
}

// writers are all ways to write in a transaction.
var writers = map[string]func(ctx context.Context, tx *postgres.Tx, id int) error{
	"Write": func(_ context.Context, tx *postgres.Tx, id int) error {
		return tx.Write("writing a note", "INSERT INTO notes (id) VALUES (@id)", postgres.Args{"id": id})
	},
	"Collect": func(_ context.Context, tx *postgres.Tx, id int) error {
		var ids []int
		return postgres.Collect(tx, &ids, "writing a note", "INSERT INTO notes (id) VALUES (@id) RETURNING id", postgres.Args{"id": id}, pgx.RowTo[int])
	},
	"Read": func(ctx context.Context, tx *postgres.Tx, id int) error {
		_, err := postgres.Read(ctx, tx, "INSERT INTO notes (id) VALUES (@id) RETURNING id", postgres.Args{"id": id}, pgx.RowTo[int])
		return err
	},
	"Gorm": func(ctx context.Context, tx *postgres.Tx, id int) error {
		return tx.Gorm(ctx).Exec("INSERT INTO notes (id) VALUES (?)", id).Error
	},
}

func forEachWriter(t *testing.T, test func(t *testing.T, n notebook, write func(context.Context, *postgres.Tx, int) error)) {
	t.Helper()
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := newNotebook(t)
			test(t, n, write)
		})
	}
}

func write(ctx context.Context, tx *postgres.Tx) error { return writers["Gorm"](ctx, tx, 1) }

func count(t *testing.T, db *postgres.DB) (n int) {
	t.Helper()
	err := db.InSnapshot(t.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(t.Context()).Raw("SELECT count(*) FROM notes").Scan(&n).Error
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInTxCommitsAllOrNothing(t *testing.T) {
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
			forEachWriter(t, func(t *testing.T, n notebook, write func(context.Context, *postgres.Tx, int) error) {
				before := n.session()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := n.db.InTx(ctx, func(tx *postgres.Tx) error {
					if err := write(ctx, tx, 1); err != nil {
						return err
					}
					return test.then(cancel)
				})
				if !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				n.want(test.notes)
				if n.session() != before {
					t.Error("the connection was thrown away, and nothing was wrong with it")
				}
			})
		})
	}
}

func TestInTxRollsBackAndPassesOnAPanic(t *testing.T) {
	t.Parallel()
	forEachWriter(t, func(t *testing.T, n notebook, write func(context.Context, *postgres.Tx, int) error) {
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not reach the caller")
				}
			}()
			_ = n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
				if err := write(t.Context(), tx, 1); err != nil {
					t.Error(err)
				}
				panic("boom")
			})
		}()
		n.want(0)
	})
}

// TestAPanicWithHalfAnAnswerRead: the connection cannot be used again after that.
func TestAPanicWithHalfAnAnswerRead(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	func() {
		defer func() { _ = recover() }()
		_ = n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
			if err := writers["Write"](t.Context(), tx, 1); err != nil {
				t.Error(err)
			}
			_, err := postgres.Read(t.Context(), tx, "SELECT generate_series(1, 100000)", nil,
				func(pgx.CollectableRow) (int, error) { panic("boom") })
			return err
		})
		t.Error("no panic")
	}()
	n.want(0)
}

func TestAnEndedTxRefusesToWrite(t *testing.T) {
	t.Parallel()
	forEachWriter(t, func(t *testing.T, n notebook, write func(context.Context, *postgres.Tx, int) error) {
		for name, end := range map[string]error{"committed": nil, "rolled back": errors.New("business says no")} {
			var kept *postgres.Tx
			if err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error { kept = tx; return end }); !errors.Is(err, end) {
				t.Fatal(err)
			}
			if err := write(t.Context(), kept, 1); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%s: error %v, want %v", name, err, sql.ErrTxDone)
			}
		}
		n.want(0)
	})
}

// TestGormRefusesToWriteAfterTheTransaction: a *gorm.DB may outlive its transaction.
func TestGormRefusesToWriteAfterTheTransaction(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	var kept *gorm.DB
	err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		kept = tx.Gorm(t.Context())
		if err := tx.Gorm(t.Context()).Begin().Error; err == nil {
			t.Error("gorm began a transaction of its own")
		}
		if err := tx.Gorm(t.Context()).Commit().Error; err == nil {
			t.Error("gorm committed")
		}
		return writers["Write"](t.Context(), tx, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Exec("DELETE FROM notes").Error; !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("error %v, want %v", err, sql.ErrTxDone)
	}
	n.want(1)
}

func TestASnapshotCannotWrite(t *testing.T) {
	t.Parallel()
	forEachWriter(t, func(t *testing.T, n notebook, write func(context.Context, *postgres.Tx, int) error) {
		err := n.db.InSnapshot(t.Context(), func(tx *postgres.Tx) error { return write(t.Context(), tx, 1) })
		if !isState(err, "25006") {
			t.Errorf("error %v, want that the transaction is read-only", err)
		}
		n.want(0)
	})
}

// TestASnapshotSeesOneMoment although the other commit came between its two reads.
func TestASnapshotSeesOneMoment(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	err := n.db.InSnapshot(t.Context(), func(tx *postgres.Tx) error {
		for range 2 {
			seen, err := postgres.ReadOne(t.Context(), tx, "SELECT count(*) FROM notes", nil, pgx.RowTo[int])
			if err != nil || seen != 0 {
				t.Errorf("%d notes, want none; error %v", seen, err)
			}
			err = n.observer.InTx(t.Context(), func(tx *postgres.Tx) error {
				return tx.Write("writing a note", "INSERT INTO notes SELECT count(*) FROM notes", nil)
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
