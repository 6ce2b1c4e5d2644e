package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/servers"
)

func TestATransactionReportsAFailedCommit(t *testing.T) {
	t.Parallel()
	const insert = "INSERT INTO notes (id, follows) VALUES (1, 99)"
	for name, transact := range map[string]func(context.Context, *postgres.DB) error{
		"InTx": func(ctx context.Context, db *postgres.DB) error {
			return db.InTx(ctx, func(tx pgx.Tx) error { return postgres.Write(ctx, tx, "writing a note", insert, nil) })
		},
		"InGorm": func(ctx context.Context, db *postgres.DB) error {
			return db.InGorm(ctx, func(tx *gorm.DB) error { return tx.Exec(insert).Error })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := newNotebook(t)
			before := n.session()
			if err := transact(t.Context(), n.db); !isState(err, "23503") {
				t.Errorf("error %v: the commit broke a constraint", err)
			}
			n.want(0)
			if n.session() != before {
				t.Error("the connection was thrown away, and nothing was wrong with it")
			}
		})
	}
}

// TestACutConnection cuts the connection before, during and after the commit.
func TestACutConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inTx     func(p *servers.Proxy)
		inCommit func(h *servers.HeldCommits, p *servers.Proxy)
		notes    int // committed notes, whatever InTx returns
	}{
		"before the commit": {
			inTx: (*servers.Proxy).Cut,
		},
		"in the commit, which the server goes on with": {
			inCommit: func(h *servers.HeldCommits, p *servers.Proxy) { p.Cut(); h.Release() },
			notes:    1,
		},
		"after the commit, with the answer on its way": {
			inCommit: func(h *servers.HeldCommits, p *servers.Proxy) { p.Stall(); h.Release(); h.AwaitEnd(); p.Cut() },
			notes:    1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observer, direct := postgrestest.Migrated(t, notes)
			proxy, address := servers.ProxyFor(t, direct)
			n := openNotebook(t, observer, address)
			n.want(0)
			held := servers.HoldCommits(t, direct, "notes")
			ended := make(chan error)
			go func() {
				ended <- n.db.InTx(t.Context(), func(tx pgx.Tx) error {
					if err := write(t.Context(), tx, 1); err != nil {
						return err
					}
					proxy.Refuse(true) // the driver's request to cancel what was cut
					if test.inTx != nil {
						test.inTx(proxy)
					}
					return postgres.Write(t.Context(), tx, "writing more", "UPDATE notes SET follows = NULL", nil)
				})
			}()
			if test.inCommit != nil {
				held.Await()
				test.inCommit(held, proxy)
			}
			if err := <-ended; !postgres.Unavailable(err) {
				t.Errorf("error %v, want that the database was lost", err)
			}
			if test.inCommit == nil {
				held.Release()
			}
			held.AwaitEnd()
			proxy.Resume()
			proxy.Refuse(false)
			n.want(test.notes)
		})
	}
}

// TestP1AContextThatEndsInTheCommit: the caller gives up, and the COMMIT goes on. If the driver
// cancelled it, a COMMIT that waits for a standby would become visible, and no standby would have
// it.
func TestP1AContextThatEndsInTheCommit(t *testing.T) {
	t.Parallel()
	for name, transact := range map[string]func(context.Context, *postgres.DB) error{
		"InTx": func(ctx context.Context, db *postgres.DB) error {
			return db.InTx(ctx, func(tx pgx.Tx) error { return write(ctx, tx, 1) })
		},
		"InGorm": func(ctx context.Context, db *postgres.DB) error {
			return db.InGorm(ctx, func(tx *gorm.DB) error { return tx.Exec("INSERT INTO notes (id) VALUES (1)").Error })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, address := newNotebook(t)
			held := servers.HoldCommits(t, address, "notes")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() { ended <- transact(ctx, n.db) }()
			held.Await()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
			n.want(0)
			held.Release()
			held.AwaitEnd()
			n.want(1)
		})
	}
}
