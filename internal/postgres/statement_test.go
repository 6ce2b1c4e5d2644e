package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
)

func isState(err error, code string) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == code
}

// readOne returns the first row of a statement.
func readOne[T any](ctx context.Context, tx pgx.Tx, statement string, args postgres.Args, scan pgx.RowToFunc[T]) (T, error) {
	rows, _ := tx.Query(ctx, statement, pgx.StrictNamedArgs(args)) // CollectOneRow returns its error
	return pgx.CollectOneRow(rows, scan)
}

// TestTheErrorNamesTheStatement lets a write fail, and checks that nothing is committed.
func TestTheErrorNamesTheStatement(t *testing.T) {
	t.Parallel()
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
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			n, _ := newNotebook(t)
			err := n.db.InTx(t.Context(), func(tx pgx.Tx) error {
				if err := write(t.Context(), tx, 1); err != nil {
					return err
				}
				return postgres.Write(t.Context(), tx, "writing a note", test.statement, test.args)
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

// TestAFailedStatementThatIsPassedOverIsNoCommit: the server answers ROLLBACK to COMMIT if
// a statement has failed before.
func TestAFailedStatementThatIsPassedOverIsNoCommit(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	for name, err := range map[string]error{
		"InTx": n.db.InTx(t.Context(), func(tx pgx.Tx) error {
			_, _ = write(t.Context(), tx, 1), write(t.Context(), tx, 1)
			return nil
		}),
		"InGorm": n.db.InGorm(t.Context(), func(tx *gorm.DB) error {
			const insert = "INSERT INTO notes (id) VALUES (1)"
			_, _ = tx.Exec(insert).Error, tx.Exec(insert).Error
			return nil
		}),
	} {
		if !errors.Is(err, pgx.ErrTxCommitRollback) {
			t.Errorf("%s: error %v, want %v", name, err, pgx.ErrTxCommitRollback)
		}
	}
	n.want(0)
}
