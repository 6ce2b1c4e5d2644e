package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
	"example.com/transactional-outbox/test/suite"
)

// standby is a second PostgreSQL server, and the network between it, the primary and the services.
//
//	service ─► proxy ─► primary
//	     └───► proxy ─► standby ─► replication ─► primary
//
// The services have both hosts in their DATABASE_URL, and each replica reaches each server through
// a proxy of its own. After a failover the roles are exchanged: the survivor is sys.postgres.
type standby struct {
	server      *servers.PostgresServer
	replication *servers.Proxy  // from the standby to the primary
	hosts       [2]databaseHost // the primary at the start, and the other
}

// databaseHost has the proxies of one host, one for each replica, in the order of databaseProxies.
type databaseHost []*servers.Proxy

// standbyName is the standby's application_name at the primary.
const standbyName = "standby"

// startSynchronous starts a standby that every commit waits for.
func (sys *system) startSynchronous(ctx context.Context) error {
	return errors.Join(sys.startStandby(ctx), sys.postgres.Synchronous(ctx, standbyName))
}

// startStandby starts a standby that no commit waits for.
func (sys *system) startStandby(ctx context.Context) (err error) {
	sys.standby = &standby{}
	sys.closers = append(sys.closers, func() {
		if err := sys.closeStandby(context.WithoutCancel(ctx)); err != nil {
			suite.Progress("ending the standby: %v", err)
		}
	})
	if sys.standby.replication, err = sys.openProxy(hostOf(sys.postgres.URL(""))); err != nil {
		return err
	}
	from := viaProxy(sys.standby.replication, sys.postgres.URL("postgres"))
	folder := filepath.Join(sys.folder, fmt.Sprintf("postgres-%d", sys.postgres.Port()))
	if sys.standby.server, err = servers.NewStandby(ctx, folder, process.WithParent, from, standbyName); err != nil {
		return err
	}
	if err := sys.standby.server.Start(ctx); err != nil {
		return err
	}
	if err := sys.addHost(hostOf(sys.standby.server.URL(""))); err != nil {
		return err
	}
	return sys.postgres.AwaitStandby(ctx, standbyName)
}

// addHost adds a second host to the URLs of the databases.
func (sys *system) addHost(target string) error {
	sys.standby.hosts = [2]databaseHost{sys.databaseProxies()}
	for range sys.standby.hosts[0] {
		proxy, err := sys.openProxy(target)
		if err != nil {
			return err
		}
		sys.standby.hosts[1] = append(sys.standby.hosts[1], proxy)
	}
	return nil
}

func (sys *system) openProxy(target string) (*servers.Proxy, error) {
	proxy, err := servers.OpenProxy(target)
	if err == nil {
		sys.closers = append(sys.closers, proxy.Close)
	}
	return proxy, err
}

// databaseURL returns the URL with which a replica reaches its database. With a standby it has both
// hosts, and the driver uses the one that takes writes.
func (sys *system) databaseURL(first *servers.Proxy, address string) string {
	u := *mustParse(address)
	if sys.pooler != nil {
		u.RawQuery += poolerParameters
	}
	if sys.standby == nil {
		return viaProxy(first, u.String())
	}
	u.Host = first.Addr()
	u.Host += "," + sys.standby.hosts[1][slices.Index(sys.databaseProxies(), first)].Addr()
	u.RawQuery += "&target_session_attrs=read-write"
	return u.String()
}

// promote makes the standby the primary, for the suite as well. It does not end the old one.
func (sys *system) promote(ctx context.Context) error {
	if err := sys.standby.server.Promote(ctx); err != nil {
		return err
	}
	sys.postgres, sys.standby.server = sys.standby.server, sys.postgres
	return sys.openPools(ctx)
}

// followBack makes the old primary a standby of the new one. It copies all data: PostgreSQL's
// pg_rewind would copy only what differs.
func (sys *system) followBack(ctx context.Context) (err error) {
	if sys.standby.replication, err = sys.openProxy(hostOf(sys.postgres.URL(""))); err != nil {
		return err
	}
	from := viaProxy(sys.standby.replication, sys.postgres.URL("postgres"))
	return errors.Join(sys.standby.server.CopyFrom(ctx, from, standbyName), sys.standby.server.Start(ctx))
}

// closeStandby ends the standby. Afterwards the primary does not wait for it.
func (sys *system) closeStandby(ctx context.Context) error {
	if sys.standby == nil || sys.standby.server == nil {
		return nil
	}
	return errors.Join(sys.standby.server.Close(), sys.postgres.Synchronous(ctx, "")) //nolint:contextcheck // Close is fast, and never interrupted
}
