package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

const (
	orderDatabase        = "orders"
	notificationDatabase = "notifications"
)

var databaseOf = map[string]string{services.Orders: orderDatabase, services.Notifications: notificationDatabase}

// recordingSQL adds triggers that record two things. unpublished: events that were published and
// then deleted, changed or queued again. No scenario is as long as a retention, so nothing may
// delete them. reclaims: events that were claimed a second time, with the age of the first claim,
// unless its holder had ended that claim or had taken the event out of it.
const recordingSQL = `
CREATE TABLE unpublished (event_id uuid);
CREATE FUNCTION note_unpublished() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  IF TG_TABLE_NAME <> 'outbox_queue'
     OR EXISTS (SELECT FROM outbox_done WHERE id = NEW.id AND status = 'published') THEN
    INSERT INTO unpublished VALUES (coalesce(NEW.id, OLD.id));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER unpublished AFTER UPDATE OR DELETE ON outbox_done FOR EACH ROW
  WHEN (OLD.status = 'published') EXECUTE FUNCTION note_unpublished();
CREATE TRIGGER unpublished AFTER INSERT OR UPDATE ON outbox_queue FOR EACH ROW EXECUTE FUNCTION note_unpublished();

CREATE TABLE claims (event_id uuid PRIMARY KEY, since timestamptz NOT NULL);
CREATE TABLE reclaims (event_id uuid, held interval NOT NULL);
CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM claims WHERE OLD.until > now() AND event_id = ANY (OLD.events);
    RETURN NULL;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    DELETE FROM claims WHERE OLD.until > now() AND event_id = ANY (OLD.events) AND event_id <> ALL (NEW.events);
    RETURN NULL;
  END IF;
  INSERT INTO claims SELECT unnest(NEW.events), now() ON CONFLICT (event_id) DO UPDATE SET since = now();
  RETURN NULL;
END $$;
CREATE TRIGGER claim AFTER INSERT OR UPDATE OR DELETE ON outbox_claims FOR EACH ROW EXECUTE FUNCTION note_claim();

CREATE FUNCTION note_reclaim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  INSERT INTO reclaims VALUES (NEW.event_id, NEW.since - OLD.since);
  RETURN NULL;
END $$;
CREATE TRIGGER reclaim AFTER UPDATE ON claims FOR EACH ROW EXECUTE FUNCTION note_reclaim()`

// makeTemplates migrates a template of each database once. A copy of a template is fast.
func (env *environment) makeTemplates(ctx context.Context) error {
	for service, database := range databaseOf {
		template := database + "_template"
		if err := env.postgres.Execute(ctx, "postgres", "CREATE DATABASE "+template); err != nil {
			return err
		}
		roles, err := env.provision(ctx, service, template)
		if err != nil {
			return err
		}
		if err := services.Migrate(ctx, filepath.Join(env.folder, service), filepath.Join(env.folder, "migrate.log"), roles.Owner); err != nil {
			return err
		}
		if err := env.postgres.Execute(ctx, template, recordingSQL); err != nil {
			return err
		}
	}
	return nil
}

// resetDatabases replaces the databases of the scenario before.
func (env *environment) resetDatabases(ctx context.Context) error {
	env.roles = map[string]servers.Roles{}
	for service, database := range databaseOf {
		err := env.postgres.Execute(ctx, "postgres",
			"DROP DATABASE IF EXISTS "+database+" WITH (FORCE)",
			"CREATE DATABASE "+database+" TEMPLATE "+database+"_template")
		if err != nil {
			return err
		}
		// A template does not hold the privileges on the database itself.
		if env.roles[service], err = env.provision(ctx, service, database); err != nil {
			return err
		}
	}
	return nil
}

// provision creates a service's roles, and grants them access to a database.
func (env *environment) provision(ctx context.Context, service, database string) (servers.Roles, error) {
	return servers.CreateRoles(ctx, env.Source, env.postgres.URL(database), strings.ReplaceAll(service, "-", "_"))
}

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

// startStandby starts a standby that every commit waits for.
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
	return errors.Join(sys.postgres.AwaitStandby(ctx, standbyName), sys.postgres.Synchronous(ctx, standbyName))
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
