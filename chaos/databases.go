package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/servertest"
)

const (
	orderDatabase        = "orders"
	notificationDatabase = "notifications"
)

var databaseOf = map[string]string{orderService: orderDatabase, notificationService: notificationDatabase}

// witnessesSQL makes the outbox remember each event that was published and then was
// not, and each that was claimed from under somebody: how long that one had held it.
const witnessesSQL = `
CREATE TABLE regrets (event_id uuid);
CREATE FUNCTION regret() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  INSERT INTO regrets VALUES (NEW.id);
  RETURN NULL;
END $$;
CREATE TRIGGER regret AFTER UPDATE ON outbox_events FOR EACH ROW
  WHEN (OLD.status = 'published' AND NEW.status <> 'published') EXECUTE FUNCTION regret();

CREATE TABLE claims (event_id uuid PRIMARY KEY, since timestamptz NOT NULL);
CREATE TABLE reclaims (event_id uuid, held interval NOT NULL);
CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  IF OLD.status = 'in_progress' THEN
    INSERT INTO reclaims SELECT event_id, now() - since FROM claims WHERE event_id = NEW.id;
  END IF;
  INSERT INTO claims VALUES (NEW.id, now()) ON CONFLICT (event_id) DO UPDATE SET since = now();
  RETURN NULL;
END $$;
CREATE TRIGGER claim AFTER UPDATE ON outbox_events FOR EACH ROW
  WHEN (NEW.status = 'in_progress' AND NEW.lease_token IS DISTINCT FROM OLD.lease_token) EXECUTE FUNCTION note_claim()`

// makeTemplates migrates each database once: a copy of it takes a moment.
func (g *ground) makeTemplates(ctx context.Context) error {
	for service, database := range databaseOf {
		template := database + "_template"
		if err := g.execute(ctx, "postgres", "CREATE DATABASE "+template); err != nil {
			return err
		}
		roles, err := g.provision(ctx, service, template)
		if err != nil {
			return err
		}
		migrate := exec.CommandContext(ctx, filepath.Join(g.folder, service), "migrate") //nolint:gosec // our own
		migrate.Env = []string{"APP_ENV=demo", "DATABASE_URL=" + roles.Owner, "AMQP_URL=" + g.broker.URL}
		if output, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("%s migrate: %w\n%s", service, err, output)
		}
	}
	return g.execute(ctx, orderDatabase+"_template", witnessesSQL)
}

// newDatabases replaces the databases of the last scenario.
func (g *ground) newDatabases(ctx context.Context) error {
	g.roles = map[string]servertest.Roles{}
	for service, database := range databaseOf {
		err := g.execute(ctx, "postgres",
			"DROP DATABASE IF EXISTS "+database+" WITH (FORCE)",
			"CREATE DATABASE "+database+" TEMPLATE "+database+"_template")
		if err != nil {
			return err
		}
		// What the roles may do with the database itself is not in its template.
		// Whoever makes the server read only (makeReadOnly) means the other database.
		if database == orderDatabase {
			if err := g.execute(ctx, "postgres", "ALTER DATABASE "+database+" SET default_transaction_read_only = off"); err != nil {
				return err
			}
		}
		if g.roles[service], err = g.provision(ctx, service, database); err != nil {
			return err
		}
	}
	return nil
}

// provision makes a service's roles, or lets them into another database.
func (g *ground) provision(ctx context.Context, service, database string) (servertest.Roles, error) {
	return servertest.Provision(ctx, g.Source, g.postgres.URL(database), strings.ReplaceAll(service, "-", "_"))
}

// execute runs statements on a connection of their own, past all proxies.
func (g *ground) execute(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, g.postgres.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}
