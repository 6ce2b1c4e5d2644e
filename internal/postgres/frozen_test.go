package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/servers"
)

// forEachWait runs test for each place where a transaction waits for the server. The connection
// freezes before the wait.
func forEachWait(t *testing.T, test func(t *testing.T, db *postgres.DB, proxy *servers.Proxy, wait func(context.Context, func()) error), options ...postgres.Option) {
	t.Helper()
	for name, wait := range map[string]func(*postgres.DB, context.Context, func()) error{
		"for the answer to its first statement": func(db *postgres.DB, ctx context.Context, freeze func()) error {
			freeze()
			return db.InTx(ctx, func(tx pgx.Tx) error { return write(ctx, tx, 1) })
		},
		"for the answer to another": func(db *postgres.DB, ctx context.Context, freeze func()) error {
			return db.InTx(ctx, func(tx pgx.Tx) error {
				if err := write(ctx, tx, 1); err != nil {
					return err
				}
				freeze()
				return write(ctx, tx, 2)
			})
		},
		"for the commit": func(db *postgres.DB, ctx context.Context, freeze func()) error {
			return db.InTx(ctx, func(tx pgx.Tx) error {
				defer freeze()
				return write(ctx, tx, 1)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, direct := postgrestest.Migrated(t, notes)
			proxy, through := servers.ProxyFor(t, direct)
			db, err := postgres.Open(t.Context(), through, 1, options...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			if err := db.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(t, db, proxy, func(ctx context.Context, freeze func()) error { return wait(db, ctx, freeze) })
		})
	}
}

// TestATransactionHasItsOwnDeadline: the caller's context has none.
func TestATransactionHasItsOwnDeadline(t *testing.T) {
	t.Parallel()
	forEachWait(t, func(t *testing.T, _ *postgres.DB, proxy *servers.Proxy, wait func(context.Context, func()) error) {
		ended := make(chan error, 1)
		go func() { ended <- wait(t.Context(), proxy.Freeze) }()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) || !postgres.Unavailable(err) {
				t.Errorf("error %v, want a deadline that was exceeded", err)
			}
		case <-time.After(20 * time.Second):
			proxy.Cut()
			t.Error("it waits without a limit")
		}
	}, postgres.TxTimeout(time.Second))
}

// TestAFrozenConnectionLosesItsPlaceInThePool has a pool of one connection. The driver alone would
// keep the place for another 15 s.
func TestAFrozenConnectionLosesItsPlaceInThePool(t *testing.T) {
	t.Parallel()
	forEachWait(t, func(t *testing.T, db *postgres.DB, proxy *servers.Proxy, wait func(context.Context, func()) error) {
		briefly, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := wait(briefly, proxy.Freeze); err == nil {
			t.Error("no error")
		}
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := db.Ping(soon); err != nil {
			t.Errorf("no other connection: %v", err)
		}
	})
}

// TestAnEarlierDeadlineHolds: the caller's deadline holds if it is earlier than the transaction's.
func TestAnEarlierDeadlineHolds(t *testing.T) {
	t.Parallel()
	n, _ := newNotebook(t)
	ended, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	err := n.db.InTx(ended, func(tx pgx.Tx) error { return write(ended, tx, 1) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	n.want(0)
}
