package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

const (
	orderDatabase        = "orders"
	notificationDatabase = "notifications"
)

// regretsSQL makes the outbox remember each event that was published and then was not.
const regretsSQL = `
CREATE TABLE regrets (event_id uuid);
CREATE FUNCTION regret() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF OLD.status = 'published' AND NEW.status <> 'published' THEN INSERT INTO regrets VALUES (NEW.id); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER regret AFTER UPDATE ON outbox_events FOR EACH ROW EXECUTE FUNCTION regret()`

// makeTemplates migrates each database once: a copy of it takes a moment.
func (g *ground) makeTemplates(ctx context.Context) error {
	for service, database := range map[string]string{orderService: orderDatabase, notificationService: notificationDatabase} {
		template := database + "_template"
		if err := g.execute(ctx, "postgres", "CREATE DATABASE "+template); err != nil {
			return err
		}
		migrate := exec.CommandContext(ctx, filepath.Join(g.folder, service), "migrate") //nolint:gosec // our own
		migrate.Env = []string{"APP_ENV=demo", "DATABASE_URL=" + g.postgres.URL(template), "AMQP_URL=" + g.broker.URL}
		if output, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("%s migrate: %w\n%s", service, err, output)
		}
	}
	return g.execute(ctx, orderDatabase+"_template", regretsSQL)
}

// newDatabases replaces the databases of the last scenario.
func (g *ground) newDatabases(ctx context.Context) error {
	var statements []string
	for _, database := range []string{orderDatabase, notificationDatabase} {
		statements = append(statements,
			"DROP DATABASE IF EXISTS "+database+" WITH (FORCE)",
			"CREATE DATABASE "+database+" TEMPLATE "+database+"_template")
	}
	return g.execute(ctx, "postgres", statements...)
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
