package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// unwritableTime is longer than all retry delays together.
const unwritableTime = 8 * time.Second

// makeReadOnly makes the consumer's database read-only, as a server is after a failover to another
// primary.
func (sys *system) makeReadOnly(ctx context.Context) (err error) {
	writable := func() error {
		return sys.execute(context.WithoutCancel(ctx), "postgres", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	}
	defer func() { err = errors.Join(err, writable()) }()
	if err := sys.execute(ctx, "postgres", "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	if err := sleep(ctx, sys.scaled(unwritableTime)); err != nil {
		return err
	}
	setting := ""
	if err := sys.notificationDB.QueryRow(ctx, "SHOW default_transaction_read_only").Scan(&setting); err != nil {
		return err
	}
	if setting == "on" {
		sys.injected++
	}
	if err := errors.Join(writable(), sleep(ctx, 500*time.Millisecond)); err != nil {
		return err
	}
	return sys.requireAllEffects(ctx, recoveryTime)
}

// fullDiskSQL makes every write fail with the error of a full disk. A really full disk would also
// stop the other database. The sequence counts the failed writes, because a rollback does not undo
// nextval.
const fullDiskSQL = `
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

// simulateFullDisk makes every write to the consumer's database fail for a time.
func (sys *system) simulateFullDisk(ctx context.Context) error {
	if err := sys.execute(ctx, notificationDatabase, fullDiskSQL); err != nil {
		return err
	}
	if err := sleep(ctx, sys.scaled(unwritableTime)); err != nil {
		return err
	}
	err := sys.notificationDB.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM disk_full_seen").Scan(&sys.injected)
	if err := errors.Join(err, sys.execute(ctx, notificationDatabase, "DROP FUNCTION disk_full CASCADE")); err != nil {
		return err
	}
	return sys.requireAllEffects(ctx, recoveryTime)
}

// revokePrivileges takes privileges on some tables away from the consumer's role, one after the
// other, as a migration that forgot them. Nothing may become a dead letter, or a failed e-mail.
func (sys *system) revokePrivileges(ctx context.Context) error {
	const role = "notification_service"
	for _, privilege := range []string{
		"INSERT (order_id, last_version) ON order_progress", "INSERT (consumer, message_id) ON processed_messages",
		"INSERT (id, slot, retry_count) ON outbox_published",
	} {
		err := errors.Join(
			sys.execute(ctx, notificationDatabase, "REVOKE "+privilege+" FROM "+role),
			sleep(ctx, sys.scaled(unwritableTime)),
			sys.execute(context.WithoutCancel(ctx), notificationDatabase, "GRANT "+privilege+" TO "+role))
		if err != nil {
			return err
		}
		sys.injected++
		if err := sys.requireAllEffects(ctx, recoveryTime); err != nil {
			return err
		}
	}
	return nil
}

// failOrders makes the messages about one of three orders fail by themselves for longer than all
// retry delays. The others go on.
func (sys *system) failOrders(ctx context.Context) error {
	began := time.Now()
	err := sys.refusingOrders(ctx, 3, func() error {
		if err := sleep(ctx, sys.scaled(unwritableTime)); err != nil {
			return err
		}
		rows, _ := sys.orderDB.Query(ctx, `
			SELECT id::text FROM outbox_status
			WHERE status = 'published' AND hashtext(aggregate_id) % 3 <> 0 AND created_at > $1`, began)
		valid, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		return sys.requireEffects(ctx, valid, goodMail, "P9", "beside others that fail")
	})
	return errors.Join(err, sys.requireAllEffects(ctx, recoveryTime))
}
