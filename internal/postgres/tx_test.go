package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a table whose constraint is checked at commit, so that a commit can fail.
var notes = postgres.Migrations{Command: "test", Files: fstest.MapFS{"00001_notes.sql": {Data: []byte(`
-- +goose Up
CREATE TABLE notes (id int PRIMARY KEY, follows int REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED);
`)}}}

func write(ctx context.Context, tx *postgres.Tx) error {
	return tx.Gorm(ctx).Exec("INSERT INTO notes (id) VALUES (1)").Error
}

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
	tests := map[string]struct {
		work func(context.Context, context.CancelFunc, *postgres.Tx) error
		want int // rows
		err  error
	}{
		"nil commits": {
			work: func(ctx context.Context, _ context.CancelFunc, tx *postgres.Tx) error { return write(ctx, tx) },
			want: 1,
		},
		"an error rolls back": {
			work: func(ctx context.Context, _ context.CancelFunc, tx *postgres.Tx) error {
				return errors.Join(write(ctx, tx), errBusiness)
			},
			err: errBusiness,
		},
		"a context that ends before the commit rolls back": {
			work: func(ctx context.Context, cancel context.CancelFunc, tx *postgres.Tx) error {
				err := write(ctx, tx)
				cancel()
				return err
			},
			err: context.Canceled,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, _ := servertest.Migrated(t, notes)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := db.InTx(ctx, func(tx *postgres.Tx) error { return test.work(ctx, cancel, tx) })
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if n := count(t, db); n != test.want {
				t.Errorf("%d rows, want %d", n, test.want)
			}
		})
	}
}

func TestInTxReportsAFailedCommit(t *testing.T) {
	t.Parallel()
	db, _ := servertest.Migrated(t, notes)
	err := db.InTx(t.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(t.Context()).Exec("INSERT INTO notes (id, follows) VALUES (1, 99)").Error
	})
	if err == nil {
		t.Error("the commit broke a constraint, and InTx returned nil")
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

func TestInTxRollsBackAndPassesOnAPanic(t *testing.T) {
	t.Parallel()
	db, _ := servertest.Migrated(t, notes)
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not reach the caller")
			}
		}()
		_ = db.InTx(t.Context(), func(tx *postgres.Tx) error {
			if err := write(t.Context(), tx); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

func TestAnEndedTxRefusesToWrite(t *testing.T) {
	t.Parallel()
	db, _ := servertest.Migrated(t, notes)
	var kept *postgres.Tx
	if err := db.InTx(t.Context(), func(tx *postgres.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), kept); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("error %v, want %v", err, sql.ErrTxDone)
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

func TestASnapshotCannotWrite(t *testing.T) {
	t.Parallel()
	db, _ := servertest.Migrated(t, notes)
	err := db.InSnapshot(t.Context(), func(tx *postgres.Tx) error { return write(t.Context(), tx) })
	if err == nil {
		t.Error("a read-only transaction wrote")
	}
}
