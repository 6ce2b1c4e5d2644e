package postgres_test

import (
	"testing"

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
	do := func(fn func(tx *postgres.Tx) error) {
		t.Helper()
		if err := db.InTx(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	write := func(statement string) {
		t.Helper()
		do(func(tx *postgres.Tx) error { return tx.Write("preparing", statement, nil) })
	}
	scans := 0
	look := func(tx *postgres.Tx) (err error) {
		if err := tx.UseIndexes(); err != nil {
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
