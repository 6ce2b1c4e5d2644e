package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/servertest"
)

// excuseForgotten allows for what a crash of PostgreSQL forgets: relays mark events
// without waiting for the disk, so the marks of the last moments are gone with it. It
// excuses no e-mail: who knows that it is sent writes that down when PostgreSQL is back.
func (y *system) excuseForgotten() {
	const moments = 2 // seconds; three times the longest that the server waits, and slow disks
	y.allowed.Duplicates += replicas*inFlight + 2*moments*y.PerSecond
}

func (y *system) restartPostgres(ctx context.Context) error {
	return y.stopPostgres(ctx, func() error { return y.postgres.Stop(ctx) })
}

func (y *system) killPostgres(ctx context.Context) error {
	return y.stopPostgres(ctx, y.postgres.Kill)
}

func (y *system) quitPostgres(ctx context.Context) error {
	return y.stopPostgres(ctx, func() error {
		pid, err := postmaster(filepath.Join(y.folder, "postgres", "data"))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
			return err
		}
		for y.postgres.Running() {
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
}

// postmaster is the pid that the server has left in its folder.
func postmaster(data string) (int, error) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid")) //nolint:gosec // a folder of our own
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	return strconv.Atoi(first)
}

func (y *system) stopPostgres(ctx context.Context, stop func() error) error {
	for range 2 {
		y.excuseForgotten()
		if err := stop(); err != nil {
			return err
		}
		if !y.postgres.Running() {
			y.injected++
		}
		if err := errors.Join(y.aMoment(ctx, time.Second), y.postgres.Start(ctx), y.aMoment(ctx, y.scaled(3*time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// terminateSQL ends one backend by chance that is in a transaction, and not ours.
const terminateSQL = `
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
  SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND application_name <> '` + ourselves + `' AND xact_start IS NOT NULL
  ORDER BY random() LIMIT 1) victim`

func (y *system) terminateBackends(ctx context.Context) error {
	for end := time.Now().Add(y.scaled(5 * time.Second)); time.Now().Before(end); {
		for _, db := range []*pgxpool.Pool{y.orderDB, y.notificationDB} {
			n := 0
			if err := db.QueryRow(ctx, terminateSQL).Scan(&n); err != nil {
				return err
			}
			y.injected += n
		}
		if err := y.aMoment(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// databaseProxies are all ways to the databases.
func (y *system) databaseProxies() []*servertest.Proxy {
	return slices.Concat(y.ordersToDB[:], y.notifyToDB[:])
}

func (y *system) loseCommitReplies(ctx context.Context) error {
	before := y.dropped()
	y.commits.losing.Store(true)
	err := sleep(ctx, y.scaled(5*time.Second))
	y.commits.losing.Store(false)
	y.injected += y.dropped() - before
	return err
}

// dropped counts the replies of all databases that were lost so far.
func (y *system) dropped() (n int) {
	for _, p := range y.databaseProxies() {
		n += p.Dropped()
	}
	return n
}

// pinRows holds a snapshot for as long as the load goes on: every row that is updated
// meanwhile leaves an old one that cannot be removed.
func (y *system) pinRows(ctx context.Context) error {
	tx, err := y.orderDB.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM outbox_events").Scan(new(int)); err != nil {
		return err
	}
	if err := sleep(ctx, y.scaled(8*time.Second)); err != nil {
		return err
	}
	return y.orderDB.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xmin IS NOT NULL").Scan(&y.injected)
}

// travel sets the zones, which count from the next connection on, and lets a lease end.
func (y *system) travel(ctx context.Context) error {
	for database, zone := range map[string]string{orderDatabase: "Pacific/Kiritimati", notificationDatabase: "America/St_Johns"} {
		if err := y.execute(ctx, "postgres", fmt.Sprintf("ALTER DATABASE %s SET timezone = '%s'", database, zone)); err != nil {
			return err
		}
	}
	for i, r := range y.all() {
		if err := y.end(ctx, r); err != nil {
			return err
		}
		if err := r.start(ctx, "TZ="+[]string{"Asia/Kathmandu", "Pacific/Pago_Pago", "Pacific/Chatham", "Etc/GMT+12"}[i]); err != nil {
			return err
		}
	}
	return y.killOrders(ctx)
}
