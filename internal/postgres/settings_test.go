package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/test/servers"
)

// TestAPlanFromAnEmptyTableUsesTheIndex: a connection keeps a plan that it made while the table was
// nearly empty.
func TestAPlanFromAnEmptyTableUsesTheIndex(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), servers.Database(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	do := func(fn func(tx pgx.Tx) error) {
		t.Helper()
		if err := db.InTx(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	write := func(statement string) {
		t.Helper()
		do(func(tx pgx.Tx) error { return postgres.Write(t.Context(), tx, "preparing", statement, nil) })
	}
	scans := 0
	look := func(tx pgx.Tx) (err error) {
		if err := postgres.UseIndexes(t.Context(), tx); err != nil {
			return err
		}
		const query = "SELECT name FROM things WHERE id = ANY (cast(@ids AS int[]))"
		if _, err := postgres.Read(t.Context(), tx, query, postgres.Args{"ids": []int{1}}, pgx.RowTo[string]); err != nil {
			return err
		}
		const count = "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'things'"
		scans, err = postgres.ReadOne(t.Context(), tx, count, nil, pgx.RowTo[int])
		return err
	}
	write("CREATE TABLE things (id int PRIMARY KEY, name text)")
	write("INSERT INTO things VALUES (1, 'a thing')")
	write("ANALYZE things")
	do(look)
	before := scans // scans that are not yet reported count as well
	for range 10 {
		do(look)
	}
	write("INSERT INTO things SELECT i, 'a thing' FROM generate_series(2, 1000) i")
	if do(look); scans != before {
		t.Errorf("the table was read %d times", scans-before)
	}
}

// TestALockTimeoutIsContended: the other transaction keeps the row locked.
func TestALockTimeoutIsContended(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	err := n.observer.InTx(t.Context(), func(tx pgx.Tx) error {
		if err := write(t.Context(), tx, 1); err != nil {
			return err
		}
		err := n.db.InTx(t.Context(), func(tx pgx.Tx) error {
			if err := postgres.SetLockTimeout(t.Context(), tx, 50*time.Millisecond); err != nil {
				return err
			}
			return write(t.Context(), tx, 1)
		})
		if !isState(err, "55P03") || !postgres.Contended(err) {
			t.Errorf("error %v, want that the lock was not free in time", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.want(1)
}
