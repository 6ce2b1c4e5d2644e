package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/internal/postgres"
)

func isState(err error, code string) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == code
}

func insert(id any) (doing, statement string, args postgres.Args) {
	return "writing a note", "INSERT INTO notes (id) VALUES (@id)", postgres.Args{"id": id}
}

// TestStatementsAreExecutedInTheirOrder mixes all methods of a transaction.
func TestStatementsAreExecutedInTheirOrder(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	var collected []int
	const countSQL = "SELECT count(*) FROM notes"
	err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		early := tx.Gorm(t.Context()) // made before the writes that its statements must follow
		var read, byGorm, inARow int
		err := errors.Join(
			tx.Write(insert(1)),
			postgres.Collect(tx, &collected, "counting", countSQL, nil, pgx.RowTo[int]),
			tx.Write(insert(2)),
		)
		if err != nil || collected != nil {
			t.Errorf("error %v, collected %v before anything was waited for", err, collected)
		}
		if read, err = postgres.ReadOne(t.Context(), tx, countSQL, nil, pgx.RowTo[int]); err != nil || read != 2 {
			t.Errorf("read %d notes, want 2; error %v", read, err)
		}
		if !slices.Equal(collected, []int{1}) {
			t.Errorf("collected %v, want what was there between the writes", collected)
		}
		_ = tx.Write(insert(3))
		if err := early.Raw(countSQL).Scan(&byGorm).Error; err != nil || byGorm != 3 {
			t.Errorf("gorm read %d notes, want 3; error %v", byGorm, err)
		}
		_ = tx.Write(insert(4))
		if err := early.Raw(countSQL).Row().Scan(&inARow); err != nil || inARow != 4 {
			t.Errorf("gorm read %d notes in a row, want 4; error %v", inARow, err)
		}
		if err := early.Exec("UPDATE notes SET id = id + 10").Error; err != nil {
			t.Error(err)
		}
		return errors.Join(tx.Write(insert(1)), postgres.Collect(tx, &collected, "counting", countSQL, nil, pgx.RowTo[int]))
	})
	if err != nil || !slices.Equal(collected, []int{5}) {
		t.Errorf("collected %v, want what was there at the end; error %v", collected, err)
	}
	n.want(5)
}

// TestWritesAreSentWithTheCommit looks from another connection: before the commit, the server has
// no transaction yet.
func TestWritesAreSentWithTheCommit(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	n.session()
	err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := errors.Join(tx.Write(insert(1)), tx.Write(insert(2))); err != nil {
			return err
		}
		const openSQL = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
		return n.observer.InTx(t.Context(), func(other *postgres.Tx) error {
			if open, err := postgres.ReadOne(t.Context(), other, openSQL, nil, pgx.RowTo[int]); err != nil || open != 0 {
				t.Errorf("%d transactions are open, want none yet; error %v", open, err)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	n.want(2)
}

// TestTheErrorNamesTheStatement lets a write fail. The next awaited statement must return the
// error.
func TestTheErrorNamesTheStatement(t *testing.T) {
	t.Parallel()
	read := func(ctx context.Context, tx *postgres.Tx) error {
		_, err := postgres.Read(ctx, tx, "SELECT 1", nil, pgx.RowTo[int])
		return err
	}
	waits := map[string]func(context.Context, *postgres.Tx) error{
		"the commit":      func(context.Context, *postgres.Tx) error { return nil },
		"a read":          read,
		"a read, ignored": func(ctx context.Context, tx *postgres.Tx) error { _ = read(ctx, tx); return nil },
		"gorm":            func(ctx context.Context, tx *postgres.Tx) error { return tx.Gorm(ctx).Exec("SELECT 1").Error },
		"gorm's row, ignored": func(ctx context.Context, tx *postgres.Tx) error {
			_ = tx.Gorm(ctx).Raw("SELECT 1").Row().Scan(new(int))
			return nil
		},
	}
	for fault, test := range map[string]struct {
		statement string
		args      postgres.Args
		want      []string
	}{
		"refused by the server":   {"INSERT INTO notes (id) VALUES (@id)", postgres.Args{"id": 1}, []string{"writing a note: ", "23505"}},
		"no such table":           {"INSERT INTO nothing (id) VALUES (@id)", postgres.Args{"id": 1}, []string{"writing a note: ", "42P01"}},
		"of a wrong type":         {"INSERT INTO notes (id) VALUES (@id)", postgres.Args{"id": "one"}, []string{"writing a note: ", "one"}},
		"without an argument":     {"INSERT INTO notes (id) VALUES (@id)", nil, []string{"argument id "}},
		"with an unused argument": {"INSERT INTO notes (id) VALUES (2)", postgres.Args{"id": 1}, []string{"argument id "}},
	} {
		for name, wait := range waits {
			t.Run(fault+", seen by "+name, func(t *testing.T) {
				t.Parallel()
				n, _ := newNotebook(t)
				err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
					err := errors.Join(
						tx.Write("writing the first note", "INSERT INTO notes (id) VALUES (1)", nil),
						tx.Write("writing a note", test.statement, test.args),
						tx.Write("writing another note", "INSERT INTO notes (id) VALUES (3)", nil),
					)
					if err != nil {
						t.Errorf("an error before a statement was awaited: %v", err)
					}
					return wait(t.Context(), tx)
				})
				for _, want := range test.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want it to say %q", err, want)
					}
				}
				n.want(0)
			})
		}
	}
}

// TestAFailedStatementThatIsPassedOverIsNoCommit: the server answers ROLLBACK to COMMIT if
// a statement has failed before.
func TestAFailedStatementThatIsPassedOverIsNoCommit(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		_ = tx.Gorm(t.Context()).Exec("INSERT INTO notes (id) VALUES (1)").Error
		_ = tx.Gorm(t.Context()).Exec("INSERT INTO notes (id) VALUES (1)").Error
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("error %v, want %v", err, pgx.ErrTxCommitRollback)
	}
	n.want(0)
}

// TestAfterAStatementWasLostNothingIsCommitted: the write was queued and never sent.
func TestAfterAStatementWasLostNothingIsCommitted(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, lose := range map[string]func(ctx context.Context, tx *postgres.Tx) error{
		"with one that cannot be sent": func(ctx context.Context, tx *postgres.Tx) error {
			_, err := postgres.Read(ctx, tx, "SELECT @n::int", postgres.Args{"n": "one"}, pgx.RowTo[int])
			return err
		},
		"with one whose context has ended": func(_ context.Context, tx *postgres.Tx) error {
			return tx.Gorm(ended).Exec("SELECT 1").Error
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := newNotebook(t)
			var lost error
			err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
				if _, err := postgres.Read(t.Context(), tx, "INSERT INTO notes VALUES (1) RETURNING id", nil, pgx.RowTo[int]); err != nil {
					return err
				}
				_ = tx.Write(insert(2))
				if lost = lose(t.Context(), tx); lost == nil {
					t.Error("no error")
				}
				if err := tx.Write(insert(3)); !errors.Is(err, lost) {
					t.Errorf("error %v, want %v", err, lost)
				}
				return nil
			})
			if !errors.Is(err, lost) {
				t.Errorf("error %v, want %v", err, lost)
			}
			n.want(0)
		})
	}
}

// TestAStatementWithAnEndedContextIsNotSent: database/sql would treat the connection as broken and
// close it.
func TestAStatementWithAnEndedContextIsNotSent(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	before := n.session()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := writers["Gorm"](t.Context(), tx, 1); err != nil {
			return err
		}
		err := writers["Gorm"](ended, tx, 2)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
		return err
	})
	n.want(0)
	if n.session() != before {
		t.Error("the connection was thrown away, and nothing was wrong with it")
	}
}

func TestReadOneWithoutRowsIsAnError(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	err := n.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		_, err := postgres.ReadOne(t.Context(), tx, "SELECT id FROM notes", nil, pgx.RowTo[int])
		if !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("error %v, want %v", err, sql.ErrNoRows)
		}
		return tx.Write(insert(1)) // nothing is wrong with the transaction
	})
	if err != nil {
		t.Error(err)
	}
	n.want(1)
}
