package system

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	burstSize      = 40               // good messages that meet the failure
	recoveryLimit  = 15 * time.Second // in which all e-mails must be sent, without an operator
	gateLimit      = 10 * time.Second // in which the gate must close
	backoffGrowth  = 3 * time.Second  // in which the pauses between attempts grow
	countingPeriod = 15 * time.Second // how long attempts are counted
)

// systemicFailure is a failure of a server or of its policy, not of a message.
type systemicFailure struct {
	gate       string
	begin, end func(*system)
}

// refusingMail is a failure in which the mail server gives these replies.
func refusingMail(rcpt, endOfData func(string) error) systemicFailure {
	return systemicFailure{"mail", func(s *system) { s.mail.answer(rcpt, endOfData) }, func(s *system) { s.mail.acceptAll() }}
}

var systemicFailures = map[string]systemicFailure{
	"454 at the end of data":   refusingMail(accept, refusal(454, 4, 7, 0)),
	"451 at RCPT":              refusingMail(refusal(451, 4, 0, 0), accept),
	"421 at RCPT":              refusingMail(func(string) error { return errHangUp }, accept),
	"554 relay denied at RCPT": refusingMail(refusal(554, 5, 7, 1), accept),
	"a read-only database":     {"database", (*system).makeReadOnly, (*system).makeWritable},
	"a full disk":              {"database", (*system).fillDisk, (*system).freeDisk},
	"a revoked privilege":      {"database", (*system).revokeInserts, (*system).grantInserts},
	"a refused login":          {"database", (*system).refuseLogins, (*system).allowLogins},
}

// TestP9ASystemicFailureDeadLettersNoMessage publishes good messages during each failure. No
// message is dead-lettered, the server gets few requests, and all e-mails are sent after the
// failure.
func TestP9ASystemicFailureDeadLettersNoMessage(t *testing.T) {
	t.Parallel()
	for name, failure := range systemicFailures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			running, first := s.startWarmConsumer(quickRetries)
			running.mayLackRights = true // two of the failures take rights away
			orders := newOrders(burstSize)
			failure.begin(s)
			s.publish(orders...)

			closed := func() bool { return running.gateClosed(failure.gate) }
			if !eventually(gateLimit, closed) {
				t.Errorf("the gate of %s is open after %s", failure.gate, gateLimit)
			}
			letTimePass(backoffGrowth)
			connections, recipients := s.mail.connections.Load(), s.mail.recipients.Load()
			letTimePass(countingPeriod)
			connections, recipients = s.mail.connections.Load()-connections, s.mail.recipients.Load()-recipients
			if most := int64(countingPeriod / time.Second); connections > most || recipients > most {
				t.Errorf("%d connections to the mail server and %d recipients in %s, want at most one a second", connections, recipients, countingPeriod)
			}
			if !closed() {
				t.Errorf("the gate of %s is open after %s", failure.gate, gateLimit+backoffGrowth+countingPeriod)
			}
			s.wantDeadLetterCount(0, 0)

			failure.end(s)
			s.wantCount(recoveryLimit, s.notificationsDB, 1+burstSize, sentCount)
			s.wantDeadLetterCount(0, 0)
			s.wantOneEmailEach(append(orders, first)...)
			if !eventually(recoveryLimit, func() bool { return !closed() }) {
				t.Errorf("the gate of %s stays closed", failure.gate)
			}
			t.Logf("%d connections to the mail server", s.mail.connections.Load())
		})
	}
}

// makeReadOnly has the effect of a primary that becomes a standby: the sessions end, and new
// sessions can only read.
func (s *system) makeReadOnly() {
	s.Helper()
	s.alterDatabase("SET default_transaction_read_only = on")
}

func (s *system) makeWritable() {
	s.Helper()
	s.alterDatabase("RESET default_transaction_read_only")
}

func (s *system) alterDatabase(how string) {
	s.Helper()
	name := queryValue[string](s, s.notificationsDB, "SELECT current_database()::text")
	s.execReadWrite("ALTER DATABASE " + name + " " + how)
	s.execReadWrite("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> '" + testApplication + "'")
}

// execReadWrite executes a statement also in a read-only database.
func (s *system) execReadWrite(statement string) {
	s.Helper()
	_, err := s.notificationsDB.Exec(s.Context(), "BEGIN READ WRITE; "+statement+"; COMMIT")
	must(s.T, err)
}

// consumerTables returns the tables that the service writes.
func (s *system) consumerTables() []string {
	s.Helper()
	return strings.Fields(queryValue[string](s, s.notificationsDB,
		"SELECT string_agg(tablename::text, ' ') FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_db_version'"))
}

// fillDisk makes every write fail like one for which PostgreSQL cannot extend a file.
func (s *system) fillDisk() {
	s.Helper()
	s.execReadWrite(`CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	for _, table := range s.consumerTables() {
		s.execReadWrite("CREATE TRIGGER disk_full BEFORE INSERT OR UPDATE ON " + table + " FOR EACH ROW EXECUTE FUNCTION disk_full()")
	}
}

// revokeInserts takes a privilege that every message needs.
func (s *system) revokeInserts() {
	s.Helper()
	s.execReadWrite("REVOKE INSERT ON processed_messages FROM " + roleOf(notificationService))
}

func (s *system) grantInserts() {
	s.Helper()
	s.execReadWrite("GRANT INSERT ON processed_messages TO " + roleOf(notificationService))
}

// refuseLogins ends the sessions, and the server refuses new ones. The role itself stays as it is,
// because all tests share it.
func (s *system) refuseLogins() {
	s.Helper()
	s.grantConnect("REVOKE CONNECT ON DATABASE %s FROM %s")
	s.execReadWrite("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> '" + testApplication + "'")
}

func (s *system) allowLogins() {
	s.Helper()
	s.grantConnect("GRANT CONNECT ON DATABASE %s TO %s")
}

func (s *system) grantConnect(statement string) {
	s.Helper()
	name := queryValue[string](s, s.notificationsDB, "SELECT quote_ident(current_database())")
	s.execReadWrite(fmt.Sprintf(statement, name, roleOf(notificationService)))
}

func (s *system) freeDisk() {
	s.Helper()
	s.execReadWrite("DROP FUNCTION disk_full CASCADE")
}
