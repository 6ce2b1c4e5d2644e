package main

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// failoverFault is the fault under which PostgreSQL has a standby.
const failoverFault = "database-failover"

// standbyName is the standby's application_name at the primary.
const standbyName = "standby"

// noticeTime is how long a failover manager takes until it promotes the standby.
const noticeTime = 2 * time.Second

// failOver kills the primary and promotes its standby. The URLs of all processes have both hosts.
func (sys *system) failOver(ctx context.Context) error {
	if err := sys.sleepRandom(ctx, 2*time.Second); err != nil {
		return err
	}
	if err := sys.postgres.Kill(); err != nil {
		return err
	}
	if !sys.postgres.Running() {
		sys.injected++
	}
	if err := errors.Join(sleep(ctx, noticeTime), sys.standby.Promote(ctx)); err != nil {
		return err
	}
	sys.postgres, sys.standby = sys.standby, sys.postgres
	return nil
}

// startStandby starts a standby that has everything, and for which every commit waits. It runs only
// for the rows of this fault, because it makes commits slower.
func (l *lane) startStandby(ctx context.Context) (err error) {
	if l.standby == nil {
		if l.standby, err = servers.NewPostgres(filepath.Join(l.folder, "postgres-2"), process.WithParent); err != nil {
			return err
		}
	}
	if err := l.standby.CopyFrom(ctx, l.postgres.URL("postgres"), standbyName); err != nil {
		return err
	}
	if err := l.standby.Start(ctx); err != nil {
		return err
	}
	return l.postgres.Synchronous(ctx, standbyName)
}

// endStandby ends the server that is not the primary, which may be the old primary. The primary no
// longer waits for it, and is the server of the next rows.
func (l *lane) endStandby(ctx context.Context) error {
	if l.standby == nil {
		return nil
	}
	err := l.standby.Kill()
	return errors.Join(err, l.postgres.Start(ctx), l.postgres.Synchronous(ctx, ""))
}

// databaseURL adds the standby to a URL, if the fault needs it. The driver uses the host that takes
// writes.
func (sys *system) databaseURL(address string) string {
	if sys.fault.name != failoverFault {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // it is from our own server
	}
	u.Host += "," + hostOf(sys.standby.URL(""))
	u.RawQuery += "&target_session_attrs=read-write"
	return u.String()
}
