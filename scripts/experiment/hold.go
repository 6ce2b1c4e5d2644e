package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Advisory locks, which PostgreSQL keeps apart by database.
const (
	experimentLock = 4000_01 // whoever has it, experiments
	holdLock       = 4000_02 // while somebody has it, the trigger waits
)

// holdSQL makes one UPDATE wait for as long as this program's session has the lock, and
// then fail: nothing of it is ever written. When the session is gone, however it ended,
// the trigger does nothing.
const holdSQL = `
CREATE OR REPLACE FUNCTION held_by_experiment() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(%[1]d) THEN
    PERFORM pg_advisory_xact_lock_shared(%[1]d);
    RAISE EXCEPTION 'an experiment has held this back';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER held_by_experiment BEFORE UPDATE ON %[2]s
  FOR EACH ROW WHEN (%[3]s) EXECUTE FUNCTION held_by_experiment()`

// hold makes the UPDATE of a table wait whose new row meets the condition, until
// released. Its session is one of its own: a broken-off statement of another one must
// not end it.
func (l *lab) hold(ctx context.Context, database, table, condition string) (release func(context.Context) error, err error) {
	session, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	release = l.undoing(func(ctx context.Context) error {
		return errors.Join(session.Close(ctx), execute(ctx, database, "DROP TRIGGER IF EXISTS held_by_experiment ON "+table,
			"DROP FUNCTION IF EXISTS held_by_experiment()"))
	})
	if _, err := session.Exec(ctx, "SELECT pg_advisory_lock($1)", holdLock); err != nil {
		return release, err
	}
	if _, err := session.Exec(ctx, fmt.Sprintf(holdSQL, holdLock, table, condition)); err != nil {
		return release, fmt.Errorf("holding back an UPDATE of %s: %w", table, err)
	}
	return release, nil
}

// execute runs statements on a connection of their own.
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

// held reports whether an UPDATE waits.
func held(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var waiting int
	err := conn.QueryRow(ctx, heldSQL, holdLock).Scan(&waiting)
	return waiting > 0, err
}
