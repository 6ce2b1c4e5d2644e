package gormorders

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/outboxtest"
)

// TestP1GormAppendsInItsTransaction in both of gorm's modes, also in a nested transaction.
func TestP1GormAppendsInItsTransaction(t *testing.T) {
	t.Parallel()
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt %t", prepare), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db, pool := open(t, prepare)
			refused := errors.New("refused")
			err := db.Transaction(func(tx *gorm.DB) error {
				must(t, Place(ctx, tx, "rolled back"))
				must(t, SetStatus(ctx, tx, "rolled back", "paid"))
				inTx := outbox.FromGorm(tx.Statement.ConnPool)
				if got := outboxtest.Appended(t, inTx); len(got) != 2 || got[1].Topic != "order.paid" {
					t.Errorf("appended %+v", got)
				}
				return refused
			})
			if !errors.Is(err, refused) {
				t.Fatal(err)
			}
			must(t, Place(ctx, db, "17"))
			must(t, SetStatus(ctx, db, "17", "paid"))
			if err := appendEvent(db.WithContext(ctx), Order{ID: "18", Version: 1}); !errors.Is(err, outbox.ErrInvalid) {
				t.Errorf("outside a transaction: error %v, want %v", err, outbox.ErrInvalid)
			}
			var got []string
			_, err = outboxtest.Drain(ctx, pool, func(_ context.Context, e outbox.Event) error {
				got = append(got, e.Topic+" "+string(e.Payload))
				return nil
			})
			must(t, err)
			if want := []string{
				`order.created {"id":"17","version":1,"status":"created"}`,
				`order.paid {"id":"17","version":2,"status":"paid"}`,
			}; !slices.Equal(got, want) {
				t.Errorf("sent %q, want %q", got, want)
			}
		})
	}
}

// open makes a database with the tables of the orders and of the outbox.
func open(t *testing.T, prepare bool) (*gorm.DB, *pgxpool.Pool) {
	t.Helper()
	server := cmp.Or(os.Getenv("TEST_DATABASE_URL"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	u, err := url.Parse(server)
	must(t, err)
	admin := connect(t, server)
	u.Path = "test_" + strings.ToLower(rand.Text())
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+u.Path)
	must(t, err)
	t.Cleanup(func() { _, _ = admin.Exec(context.Background(), "DROP DATABASE "+u.Path+" WITH (FORCE)") })
	pool := connect(t, u.String())
	db, err := gorm.Open(postgres.Open(u.String()), &gorm.Config{PrepareStmt: prepare})
	must(t, err)
	must(t, db.AutoMigrate(&Order{}))
	must(t, outbox.Migrate(t.Context(), pool))
	return db, pool
}

func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
