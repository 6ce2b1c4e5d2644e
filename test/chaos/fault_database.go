package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"example.com/transactional-outbox/test/env/mailserver"
)

// allowLostMarks permits duplicates of the events whose marks a crash of PostgreSQL loses: relays
// mark events with synchronous_commit off. It permits no repeated e-mail: the service waits for
// PostgreSQL and marks the e-mail then.
func (sys *system) allowLostMarks() {
	const moments = 2 // seconds; more than three times wal_writer_delay, for slow disks
	sys.allowed.Duplicates += replicas*inFlight + 2*moments*sys.PerSecond
}

func (sys *system) killPostgres(ctx context.Context) error {
	for range 2 {
		sys.allowLostMarks()
		if err := sys.endPostgres(sys.postgres.Kill, 1); err != nil {
			return err
		}
		if err := errors.Join(sys.sleepRandom(ctx, time.Second), sys.postgres.Start(ctx), sys.sleepRandom(ctx, sys.scaled(3*time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// endPostgres ends the server, and counts so many faults.
func (sys *system) endPostgres(end func() error, faults int) error {
	err := end()
	if !sys.postgres.Running() {
		sys.injected += faults
	}
	return err
}

// restartWhileMailing restarts PostgreSQL while all connections wait for the answer to an e-mail.
// The answer comes while the database is down, so the e-mails cannot be marked sent at once.
func (sys *system) restartWhileMailing(ctx context.Context) error {
	sys.allowLostMarks()
	sys.mail.SetFault(mailserver.Fault{HoldData: true})
	defer sys.mail.SetFault(mailserver.Fault{})
	if err := sys.awaitHeld(ctx, replicas*mailConnections/2); err != nil {
		return err
	}
	if err := sys.endPostgres(func() error { return sys.postgres.Stop(ctx) }, sys.mail.Held()); err != nil {
		return err
	}
	sys.mail.SetFault(mailserver.Fault{})
	return errors.Join(sleep(ctx, 1500*time.Millisecond), sys.postgres.Start(ctx), sleep(ctx, sys.scaled(2*time.Second)))
}

// refuseWritesSQL makes every write fail as on a full disk: a really full one would also stop the
// other database. The sequence counts the failed writes, because a rollback does not undo nextval.
const refuseWritesSQL = `
CREATE SEQUENCE refused_writes_seen;
CREATE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  PERFORM nextval('refused_writes_seen');
  RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'no write is possible';
END $$`

// onEachTable executes a statement for each table, in a transaction of its own: to lock several
// tables at once would be a deadlock with the service.
func onEachTable(statement string) string {
	return `DO $$ DECLARE t regclass; BEGIN
  FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
    EXECUTE format('` + statement + `', t);
    COMMIT;
  END LOOP;
END $$`
}

// refuseWrites makes every write to the consumer's database fail for longer than all retry delays.
// No message may be copied to a retry queue.
func (sys *system) refuseWrites(ctx context.Context) error {
	if err := sys.postgres.Execute(ctx, notificationDatabase, refuseWritesSQL,
		onEachTable("CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE ON %s EXECUTE FUNCTION refuse_write()")); err != nil {
		return err
	}
	refused := 0
	err := errors.Join(sleep(ctx, sys.scaled(8*time.Second)),
		sys.notificationDB.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM refused_writes_seen").Scan(&refused),
		sys.postgres.Execute(context.WithoutCancel(ctx), notificationDatabase,
			onEachTable("DROP TRIGGER refuse_write ON %s"), "DROP FUNCTION refuse_write", "DROP SEQUENCE refused_writes_seen"))
	if err != nil {
		return err
	}
	sys.injected += refused
	if err := sys.requireAllEffects(ctx, "P9", "after no write was possible"); err != nil {
		return err
	}
	for _, r := range sys.notificationServices {
		n, failed := r.process.Metric(ctx, "consumer_messages_total", "outcome", "retried")
		if err = errors.Join(err, failed); n > 0 {
			sys.reportViolation("P9", "%.0f messages were copied to a retry queue", n)
		}
	}
	return err
}

// commits recognises COMMIT in the messages to PostgreSQL: by its text, or by the name of a
// prepared COMMIT.
type commits struct {
	dropping atomic.Bool
	seen     atomic.Int64

	mu    sync.Mutex
	names map[string]bool
}

// commitsPerLoss is how many commits there are for each lost reply.
const commitsPerLoss = 12

// prepareCommit matches the message Parse for a named COMMIT. The four bytes of the message's
// length may look like letters.
var prepareCommit = regexp.MustCompile(`(?s)P.{4}([0-9A-Za-z_]+)\x00(?i:commit)\x00`)

// dropsReply reports whether the proxy must drop the reply to this request.
func (c *commits) dropsReply(request []byte) bool {
	return c.isCommit(request) && c.dropping.Load() && c.seen.Add(1)%commitsPerLoss == 0
}

func (c *commits) isCommit(request []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if named := prepareCommit.FindSubmatch(request); named != nil {
		c.names[string(named[1])] = true
		return false // prepared, not executed
	}
	for name := range c.names {
		// In Bind, the name follows the portal's name, which is empty.
		if bytes.Contains(request, []byte("\x00"+name+"\x00")) {
			return true
		}
	}
	return bytes.Contains(bytes.ToLower(request), []byte("commit\x00"))
}

func (sys *system) dropCommitReplies(ctx context.Context) error {
	before := sys.droppedReplies()
	sys.commits.dropping.Store(true)
	err := sleep(ctx, sys.scaled(5*time.Second))
	sys.commits.dropping.Store(false)
	sys.injected += sys.droppedReplies() - before
	return err
}

// droppedReplies counts the replies that the proxies have dropped.
func (sys *system) droppedReplies() (n int) {
	for _, p := range sys.databaseProxies() {
		n += p.Dropped()
	}
	return n
}
