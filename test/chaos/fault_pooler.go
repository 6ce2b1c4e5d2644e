package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
	"example.com/transactional-outbox/test/suite"
)

// poolerParameters are what a URL needs for a PgBouncer before 1.21 in transaction mode. A prepared
// statement belongs to a session, and the next transaction may have another session.
const poolerParameters = "&default_query_exec_mode=cache_describe"

// startPooler starts a PgBouncer between the services and their databases.
func (sys *system) startPooler(ctx context.Context) (err error) {
	if sys.pooler, err = sys.openPooler(ctx, sys.postgres); err != nil {
		return err
	}
	suite.Progress("  %s, %s", sys.pooler.Version(ctx), poolerParameters[1:])
	for _, proxies := range []*[replicas]*servers.Proxy{&sys.ordersToDB, &sys.notifyToDB} {
		for i := range proxies {
			if proxies[i], err = sys.openProxy(hostOf(sys.pooler.Via(sys.postgres.URL("")))); err != nil {
				return err
			}
		}
	}
	return sys.startPoolerAgain(ctx)
}

// openPooler returns a PgBouncer in front of a server, until the end of the scenario.
func (sys *system) openPooler(ctx context.Context, server *servers.PostgresServer) (*servers.PgBouncer, error) {
	var roles []string
	for _, urls := range sys.roles {
		roles = append(roles, mustParse(urls.Application).User.Username())
	}
	folder := filepath.Join(sys.folder, fmt.Sprint("pgbouncer-", server.Port()))
	pooler, err := server.NewPgBouncer(ctx, folder, process.WithParent, roles...)
	if err == nil {
		sys.closers = append(sys.closers, func() { _ = pooler.Close() }) //nolint:contextcheck // cleanup must not be interrupted
	}
	return pooler, err
}

func (sys *system) startPoolerAgain(ctx context.Context) error {
	return sys.pooler.Start(ctx, sys.roles[orderService].Application)
}

// breakPooler kills PgBouncer twice, and then resets its connections.
func (sys *system) breakPooler(ctx context.Context) error {
	for range 2 {
		if err := sys.pooler.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
			return err
		}
		sys.injected++
		if err := errors.Join(sys.sleepRandom(ctx, time.Second), sys.startPoolerAgain(ctx), sys.sleepRandom(ctx, sys.scaled(3*time.Second))); err != nil {
			return err
		}
	}
	for range 5 {
		for _, p := range sys.databaseProxies() {
			sys.injected += p.Open()
			p.Reset()
		}
		if err := sys.sleepRandom(ctx, sys.scaled(time.Second)); err != nil {
			return err
		}
	}
	return sys.requireWork(ctx, takeoverTime)
}
