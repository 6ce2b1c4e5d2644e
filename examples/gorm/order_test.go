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
	"gorm.io/gorm/logger"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/outboxtest"
)

func Example() {
	ctx := context.Background()
	db, pool, end, err := open(ctx, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()

	fmt.Println("placed:", Place(ctx, db, "17"))
	fmt.Println("paid:", SetStatus(ctx, db, "17", "paid"))
	fmt.Println("placed again:", Place(ctx, db, "17") != nil)
	fmt.Println("outside a transaction:", appendEvent(db, Order{ID: "18", Version: 1, Status: "created"}))

	sent, err := outboxtest.Drain(ctx, pool, func(_ context.Context, e outbox.Event) error {
		fmt.Printf("%s %s\n", e.Topic, e.Payload)
		return nil
	})
	fmt.Println("sent:", sent, err)
	// Output:
	// placed: <nil>
	// paid: <nil>
	// placed again: true
	// outside a transaction: appending an event: gorm is not in a transaction (it has a *sql.DB)
	// order.created {"id":"17","version":1,"status":"created"}
	// order.paid {"id":"17","version":2,"status":"paid"}
	// sent: 2 <nil>
}

// TestP1GormAppendsInItsTransaction in both of gorm's modes, also in a nested transaction.
func TestP1GormAppendsInItsTransaction(t *testing.T) {
	t.Parallel()
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt %t", prepare), func(t *testing.T) {
			t.Parallel()
			db, pool, end, err := open(t.Context(), prepare)
			must(t, err)
			t.Cleanup(end)
			refused := errors.New("refused")
			err = db.Transaction(func(tx *gorm.DB) error {
				must(t, Place(t.Context(), tx, "nested"))
				must(t, SetStatus(t.Context(), tx, "nested", "paid"))
				inTx := outbox.FromSQL(tx.Statement.ConnPool.(outbox.SQLTx))
				if got := outboxtest.Appended(t, inTx); len(got) != 2 || got[1].Topic != "order.paid" {
					t.Errorf("appended %+v", got)
				}
				return refused
			})
			if !errors.Is(err, refused) {
				t.Fatal(err)
			}
			must(t, Place(t.Context(), db, "17"))
			must(t, SetStatus(t.Context(), db, "17", "paid"))
			if err := appendEvent(db.WithContext(t.Context()), Order{ID: "18", Version: 1}); !errors.Is(err, ErrNoTransaction) {
				t.Errorf("outside a transaction: error %v, want %v", err, ErrNoTransaction)
			}
			var got []string
			_, err = outboxtest.Drain(t.Context(), pool, func(_ context.Context, e outbox.Event) error {
				got = append(got, e.AggregateID+" "+e.Topic)
				return nil
			})
			if must(t, err); !slices.Equal(got, []string{"17 order.created", "17 order.paid"}) {
				t.Errorf("sent %v", got)
			}
		})
	}
}

// open makes a database with the tables of the orders and of the outbox, which end drops.
func open(ctx context.Context, prepare bool) (db *gorm.DB, pool *pgxpool.Pool, end func(), err error) {
	server := cmp.Or(os.Getenv("TEST_DATABASE_URL"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	name := "test_" + strings.ToLower(rand.Text())
	if err := execute(ctx, server, "CREATE DATABASE "+name); err != nil {
		return nil, nil, nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, nil, nil, err
	}
	u.Path = "/" + name
	pool, err = pgxpool.New(ctx, u.String())
	if err != nil {
		return nil, nil, nil, err
	}
	db, err = gorm.Open(postgres.Open(u.String()), &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	if err != nil {
		return nil, nil, nil, err
	}
	end = func() {
		pool.Close()
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
		if err := execute(context.Background(), server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			fmt.Println(err)
		}
	}
	return db, pool, end, errors.Join(db.AutoMigrate(&Order{}), outbox.Migrate(ctx, pool))
}

func execute(ctx context.Context, server, statement string) error {
	pool, err := pgxpool.New(ctx, server)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, statement)
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
