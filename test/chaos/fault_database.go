package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/chaos/mailserver"
)

// unwritableTime is longer than all retry delays together.
const unwritableTime = 8 * time.Second

// refusedWritesSQL makes every write fail with a code: 25006 is that of a server that is read-only,
// and 53100 that of a full disk (a really full one would also stop the other database). The sequence
// counts the failed writes, because a rollback does not undo nextval. A write through a partitioned
// table fires none of its triggers, but each transaction writes to another table as well.
const refusedWritesSQL = `
CREATE SEQUENCE refused_writes_seen;
CREATE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  PERFORM nextval('refused_writes_seen');
  RAISE EXCEPTION USING ERRCODE = '%s', MESSAGE = 'no write is possible';
END $$;
DO $$ DECLARE t regclass; BEGIN
  FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
    EXECUTE format('CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE ON %%s EXECUTE FUNCTION refuse_write()', t);
  END LOOP;
END $$`

// refuseWrites makes every write to the consumer's database fail for a time. No message is copied to
// a retry queue.
func refuseWrites(code string, lasts time.Duration) func(*system, context.Context) error {
	return func(sys *system, ctx context.Context) error {
		if err := sys.execute(ctx, notificationDatabase, fmt.Sprintf(refusedWritesSQL, code)); err != nil {
			return err
		}
		if sys.scaled(lasts) > lease { // what was sent before is marked too late
			for _, r := range sys.notificationServices {
				sys.allowed.Mails += r.mailsInHand()
				sys.allowed.MailsEach++
			}
		}
		if err := sleep(ctx, sys.scaled(lasts)); err != nil {
			return err
		}
		err := sys.notificationDB.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM refused_writes_seen").Scan(&sys.injected)
		if err := errors.Join(err, sys.execute(ctx, notificationDatabase, "DROP FUNCTION refuse_write CASCADE")); err != nil {
			return err
		}
		return errors.Join(sys.requireAllEffects(ctx, recoveryTime), sys.requireNoRetries(ctx))
	}
}

// requireNoRetries requires that the consumers have copied no message to a retry queue.
func (sys *system) requireNoRetries(ctx context.Context) (err error) {
	for _, r := range sys.notificationServices {
		n, failed := r.metric(ctx, `consumer_messages_total{outcome="retried"}`)
		if err = errors.Join(err, failed); n > 0 {
			sys.reportViolation("P9", "%.0f messages were copied to a retry queue", n)
		}
	}
	return err
}

// loseDatabase takes the consumer's database away: it refuses connections, and then it is silent. No
// e-mail is sent meanwhile, because nothing could mark it.
func (sys *system) loseDatabase(ctx context.Context) error {
	const lasts = 6 * time.Second
	if err := sys.holdBeforeData(ctx); err != nil {
		return err
	}
	defer sys.mail.SetFault(mailserver.Fault{})
	if err := errors.Join(sys.refuseConnections(ctx, sys.notifyToDB[:], sys.scaled(lasts)), sys.requireAllEffects(ctx, recoveryTime)); err != nil {
		return err
	}
	for _, p := range sys.notifyToDB {
		p.Stall()
		defer p.Resume()
	}
	if err := sleep(ctx, sys.scaled(lasts)); err != nil {
		return err
	}
	for _, p := range sys.notifyToDB {
		p.Resume()
		sys.injected++
	}
	return errors.Join(sys.requireAllEffects(ctx, recoveryTime), sys.requireNoRetries(ctx))
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
