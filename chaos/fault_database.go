package main

import (
	"context"
	"errors"
	"time"
)

// unwritable is longer than all retry delays together.
const unwritable = 8 * time.Second

// makeReadOnly lets the consumer's database answer, and take nothing: what a program sees
// that is still connected to a server which is no primary any more.
func (y *system) makeReadOnly(ctx context.Context) (err error) {
	writable := func() error {
		return y.execute(context.WithoutCancel(ctx), "postgres", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	}
	defer func() { err = errors.Join(err, writable()) }()
	if err := y.execute(ctx, "postgres", "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	if err := sleep(ctx, y.scaled(unwritable)); err != nil {
		return err
	}
	setting := ""
	if err := y.notificationDB.QueryRow(ctx, "SHOW default_transaction_read_only").Scan(&setting); err != nil {
		return err
	}
	if setting == "on" {
		y.injected++
	}
	if err := errors.Join(writable(), sleep(ctx, 500*time.Millisecond)); err != nil {
		return err
	}
	return y.awaitMended(ctx)
}

// fullSQL lets every write end as it does when the disk is full. A disk that is really
// full takes whoever else is on it along; to the service it is this answer. A number that
// was drawn stays drawn, whatever is rolled back.
const fullSQL = `
CREATE SEQUENCE disk_full_seen;
CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  PERFORM nextval('disk_full_seen');
  RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'could not extend file "base/16384/16385": No space left on device';
END $$;
DO $$ DECLARE t regclass; BEGIN
  FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
    EXECUTE format('CREATE TRIGGER disk_full BEFORE INSERT OR UPDATE ON %s EXECUTE FUNCTION disk_full()', t);
  END LOOP;
END $$`

// fillDisk lets the consumer's database have no room for a while.
func (y *system) fillDisk(ctx context.Context) error {
	if err := y.execute(ctx, notificationDatabase, fullSQL); err != nil {
		return err
	}
	if err := sleep(ctx, y.scaled(unwritable)); err != nil {
		return err
	}
	err := y.notificationDB.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM disk_full_seen").Scan(&y.injected)
	if err := errors.Join(err, y.execute(ctx, notificationDatabase, "DROP FUNCTION disk_full CASCADE")); err != nil {
		return err
	}
	return y.awaitMended(ctx)
}
