package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Advisory locks. PostgreSQL has separate ones in each database.
const (
	experimentLock = 4000_01 // held by the running experiment
	holdLock       = 4000_02 // while it is held, the trigger waits
)

// holdSQL makes the write of certain rows wait while this program's session holds the lock, and
// then fail, so the row is never written. After the end of the session the trigger does nothing.
const holdSQL = `
CREATE OR REPLACE FUNCTION held_by_experiment() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF %[3]s THEN
    IF NOT pg_try_advisory_xact_lock_shared(%[1]d) THEN
      PERFORM pg_advisory_xact_lock_shared(%[1]d);
      RAISE EXCEPTION 'an experiment has held this back';
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER held_by_experiment BEFORE INSERT OR UPDATE ON %[2]s
  FOR EACH ROW EXECUTE FUNCTION held_by_experiment()`

// hold makes statements wait that write a row with the condition, until release is called. It uses
// its own session, which no cancelled statement can close.
func (l *lab) hold(ctx context.Context, database, table, condition string) (release func(context.Context) error, err error) {
	session, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	release = l.registerUndo(func(ctx context.Context) error {
		return errors.Join(session.Close(ctx), execute(ctx, database, "DROP TRIGGER IF EXISTS held_by_experiment ON "+table,
			"DROP FUNCTION IF EXISTS held_by_experiment()"))
	})
	if _, err := session.Exec(ctx, "SELECT pg_advisory_lock($1)", holdLock); err != nil {
		return release, err
	}
	if _, err := session.Exec(ctx, fmt.Sprintf(holdSQL, holdLock, table, condition)); err != nil {
		return release, fmt.Errorf("creating the trigger on %s: %w", table, err)
	}
	return release, nil
}

// execute runs statements on a new connection.
func execute(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// heldSQL counts the sessions that wait in the trigger.
const heldSQL = `
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND NOT granted AND objid = $1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// held reports whether a statement waits in the trigger.
func held(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var waiting int
	err := conn.QueryRow(ctx, heldSQL, holdLock).Scan(&waiting)
	return waiting > 0, err
}
