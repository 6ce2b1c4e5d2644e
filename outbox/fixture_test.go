package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// created is a valid event.
func created(id string, version int) outbox.Event {
	return outbox.Event{
		Topic: "order.created", Aggregate: "order", AggregateID: id, Version: version, Payload: []byte(`{}`),
	}
}

// begin begins a transaction that is rolled back when the test ends, unless it was committed.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if err := tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	})
	return tx
}

// inTx commits what do has done.
func inTx(t *testing.T, pool *pgxpool.Pool, do func(tx pgx.Tx) error) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), pool, do))
}

func openSQL(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// count returns the number of rows of a query's FROM.
func count(t *testing.T, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, from string,
) (n int) {
	t.Helper()
	must(t, db.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

// withSetting adds a setting to the URL of a database.
func withSetting(url, setting string) string {
	return url + map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")] + setting
}

var must = dbtest.Must // many lines have it

// migratedURL is the URL of a database with the tables.
func migratedURL(t *testing.T) string {
	t.Helper()
	url := dbtest.URL(t)
	_, err := dbtest.Pool(t, url).Exec(t.Context(), dbtest.Schema(t), pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	return url
}
