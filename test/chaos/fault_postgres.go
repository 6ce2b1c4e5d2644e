package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/servers"
)

// allowLostMarks permits duplicates of the events whose marks a crash of PostgreSQL loses: relays
// mark events with synchronous_commit off. It permits no repeated e-mail: the service waits for
// PostgreSQL and marks the e-mail then.
func (sys *system) allowLostMarks() {
	const moments = 2 // seconds; more than three times wal_writer_delay, for slow disks
	sys.allowed.Duplicates += replicas*inFlight + 2*moments*sys.PerSecond
}

func (sys *system) restartPostgres(ctx context.Context) error {
	return sys.restartPostgresTwice(ctx, func() error { return sys.postgres.Stop(ctx) })
}

func (sys *system) killPostgres(ctx context.Context) error {
	return sys.restartPostgresTwice(ctx, sys.postgres.Kill)
}

func (sys *system) stopPostgresImmediately(ctx context.Context) error {
	return sys.restartPostgresTwice(ctx, func() error {
		pid, err := postmaster(filepath.Join(sys.folder, "postgres", "data"))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
			return err
		}
		for sys.postgres.Running() {
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
}

// postmaster returns the pid of the server.
func postmaster(data string) (int, error) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid")) //nolint:gosec // our own folder
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	return strconv.Atoi(first)
}

func (sys *system) restartPostgresTwice(ctx context.Context, stop func() error) error {
	for range 2 {
		sys.allowLostMarks()
		if err := stop(); err != nil {
			return err
		}
		if !sys.postgres.Running() {
			sys.injected++
		}
		if err := errors.Join(sys.sleepRandom(ctx, time.Second), sys.postgres.Start(ctx), sys.sleepRandom(ctx, sys.scaled(3*time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// terminateSQL terminates one random backend in a transaction, except for our own.
const terminateSQL = `
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
  SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND application_name <> '` + applicationName + `' AND xact_start IS NOT NULL
  ORDER BY random() LIMIT 1) victim`

func (sys *system) terminateBackends(ctx context.Context) error {
	for end := time.Now().Add(sys.scaled(5 * time.Second)); time.Now().Before(end); {
		for _, db := range []*pgxpool.Pool{sys.orderDB, sys.notificationDB} {
			n := 0
			if err := db.QueryRow(ctx, terminateSQL).Scan(&n); err != nil {
				return err
			}
			sys.injected += n
		}
		if err := sys.sleepRandom(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// databaseProxies returns the proxies of all connections to the databases.
func (sys *system) databaseProxies() []*servers.Proxy {
	return slices.Concat(sys.ordersToDB[:], sys.notifyToDB[:])
}
