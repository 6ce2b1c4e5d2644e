package main

import (
	"context"
	"errors"
	"time"
)

// startTwoPoolers starts a synchronous standby, and a PgBouncer in front of each server.
func (sys *system) startTwoPoolers(ctx context.Context) error {
	if err := errors.Join(sys.startPooler(ctx), sys.startSynchronous(ctx)); err != nil {
		return err
	}
	second, err := sys.openPooler(ctx, sys.standby.server)
	if err != nil {
		return err
	}
	return errors.Join(second.Start(ctx, sys.roles[orderService].Application), sys.addHost(hostOf(second.Via(sys.postgres.URL("")))))
}

// sessionsSQL counts the sessions of clients other than this program.
const sessionsSQL = `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> '` + applicationName + `'`

// switchOver pauses the first PgBouncer, stops the primary, promotes the standby, and starts the
// old primary as its standby. The PgBouncer keeps the services' connections. Afterwards they lead
// to a server that refuses writes.
func (sys *system) switchOver(ctx context.Context) error {
	sys.allowLostMarks()
	if err := errors.Join(sys.pooler.Pause(), sys.awaitCount(ctx, sessionsSQL, func(n int) bool { return n == 0 })); err != nil {
		return err
	}
	if err := errors.Join(sys.postgres.Stop(ctx), sys.promote(ctx)); err != nil {
		return err
	}
	old := sys.standby.server
	if err := errors.Join(old.Follow(sys.postgres.URL("postgres"), standbyName), old.Start(ctx), sys.pooler.Resume()); err != nil {
		return err
	}
	for _, p := range sys.standby.hosts[0] {
		sys.injected += p.Open()
	}
	return errors.Join(sys.requireWork(ctx, takeoverTime), sys.sleepRandom(ctx, sys.scaled(3*time.Second)))
}
