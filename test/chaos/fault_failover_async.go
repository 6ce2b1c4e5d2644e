package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/servers"
)

// staleTime is how long the standby receives nothing before the primary is killed.
const staleTime = 2 * time.Second

// failOverAsynchronously stalls the replication, kills the primary and promotes the standby. What
// was committed after the stall is lost, and the suite reads it from the old primary.
func (sys *system) failOverAsynchronously(ctx context.Context) error {
	sys.allowLostMarks()
	replicated := len(sys.load.Ledger())
	if err := sys.postgres.AwaitStandby(ctx, standbyName); err != nil {
		return err
	}
	sys.standby.replication.Stall()
	if err := sleep(ctx, staleTime); err != nil {
		return err
	}
	if err := sys.postgres.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	sys.fence(sys.standby.hosts[0])
	sys.standby.replication.Cut()
	if err := sleep(ctx, noticeTime); err != nil {
		return err
	}
	kept, err := readDatabases(ctx, sys.standby.server)
	if err != nil {
		return err
	}
	if err := errors.Join(sys.promote(ctx), sys.requireWork(ctx, takeoverTime)); err != nil {
		return err
	}
	return errors.Join(sys.compare(ctx, kept, replicated), sys.sleepRandom(ctx, sys.scaled(2*time.Second)))
}

// fence refuses all connections of the services to a server. It must never be used again.
func (sys *system) fence(host databaseHost) {
	for _, p := range host {
		p.Refuse(true)
		p.Cut()
	}
}

// compare starts the old primary again, which no service can reach, and finds what the standby did
// not have.
func (sys *system) compare(ctx context.Context, kept checker.Evidence, replicated int) error {
	old := sys.standby.server
	if err := old.Start(ctx); err != nil {
		return err
	}
	all, err := readDatabases(ctx, old)
	if err != nil {
		return err
	}
	sys.forgotten = checker.Difference(all, kept)
	sys.forgotten.Replicated = replicated
	sys.allowed.Duplicates += sys.forgotten.Marks
	sys.injected += len(sys.forgotten.Orders)
	return old.Kill() //nolint:contextcheck // it is fast, and never interrupted
}

func readDatabases(ctx context.Context, server *servers.PostgresServer) (e checker.Evidence, err error) {
	var pools [2]*pgxpool.Pool
	for i, database := range []string{orderDatabase, notificationDatabase} {
		if pools[i], err = pgxpool.New(ctx, server.URL(database)+"&application_name="+applicationName); err != nil {
			return e, err
		}
		defer pools[i].Close()
	}
	return e, e.ReadDatabases(ctx, pools[0], pools[1])
}
