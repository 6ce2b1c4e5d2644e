package systemtest

import (
	"strings"
	"testing"
	"time"
)

const (
	many   = 40               // good messages that meet the trouble
	mend   = 15 * time.Second // in which all must be sent by themselves
	settle = 10 * time.Second // in which the gate must close
	grow   = 3 * time.Second  // in which its pauses grow
	watch  = 15 * time.Second // how long attempts are counted
)

// trouble is something wrong with a server or its policy, and not with any message.
type trouble struct {
	gate       string
	begin, end func(*system, *scriptedMail)
}

// refusing is a mail server that takes nothing, and says so where begin puts it.
func refusing(rcpt, dot func(string) error) trouble {
	return trouble{"mail", func(_ *system, m *scriptedMail) { m.answer(rcpt, dot) }, func(_ *system, m *scriptedMail) { m.takeAll() }}
}

var troubles = map[string]trouble{
	"454 at the dot":           refusing(accept, refuseAll(454, 4, 7, 0)),
	"451 at RCPT":              refusing(refuseAll(451, 4, 0, 0), accept),
	"421 at RCPT":              refusing(func(string) error { return errHangUp }, accept),
	"554 relay denied at RCPT": refusing(refuseAll(554, 5, 7, 1), accept),
	"a read-only database":     {"database", (*system).makeReadOnly, (*system).makeWritable},
	"a full disk":              {"database", (*system).fillDisk, (*system).freeDisk},
}

// TestP9SystemicTroubleBuriesNoMessage has many good messages meet each trouble: none
// becomes a dead letter, the server is spared, and all are sent once it is mended.
func TestP9SystemicTroubleBuriesNoMessage(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			mail := s.scriptMail()
			running, first := s.trusted(quick)
			orders := ordersOf(many)
			trouble.begin(s, mail)
			s.emit(orders...)

			closed := func() bool { return running.gateClosed(trouble.gate) }
			if !within(settle, closed) {
				t.Errorf("the gate of %s is open after %s", trouble.gate, settle)
			}
			pass(grow)
			opened, asked := mail.opened.Load(), mail.asked.Load()
			pass(watch)
			opened, asked = mail.opened.Load()-opened, mail.asked.Load()-asked
			if most := int64(watch / time.Second); opened > most || asked > most {
				t.Errorf("%d connections to the mail server and %d recipients in %s, want at most one a second", opened, asked, watch)
			}
			if !closed() {
				t.Errorf("the gate of %s is open after %s", trouble.gate, settle+grow+watch)
			}
			s.wantDeadLetters(0, 0)

			trouble.end(s, mail)
			s.wantCount(mend, s.notifications, 1+many, sent)
			s.wantDeadLetters(0, 0)
			s.wantOneCopyEach(append(orders, first)...)
			if !within(mend, func() bool { return !closed() }) {
				t.Errorf("the gate of %s stays closed", trouble.gate)
			}
			t.Logf("%d connections to the mail server in all", mail.opened.Load())
		})
	}
}

// pass lets time pass: nothing is to happen meanwhile.
func pass(span time.Duration) { within(span, func() bool { return false }) }

func (s *service) gateClosed(dependency string) bool {
	s.Helper()
	closed, _ := s.series(`consumer_gate_closed{dependency="` + dependency + `"}`)
	return closed == 1
}

// makeReadOnly is what a service sees when its primary has become a standby: its sessions
// end, and the next ones only read.
func (s *system) makeReadOnly(*scriptedMail) {
	s.Helper()
	s.alterDatabase("SET default_transaction_read_only = on")
}

func (s *system) makeWritable(*scriptedMail) {
	s.Helper()
	s.alterDatabase("RESET default_transaction_read_only")
}

func (s *system) alterDatabase(how string) {
	s.Helper()
	name := one[string](s, s.notifications, "SELECT current_database()::text")
	s.alter("ALTER DATABASE " + name + " " + how)
	s.alter("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> '" + ourselves + "'")
}

// alter writes where others may only read.
func (s *system) alter(statement string) {
	s.Helper()
	_, err := s.notifications.Exec(s.Context(), "BEGIN READ WRITE; "+statement+"; COMMIT")
	must(s.T, err)
}

// tables are what the service writes.
func (s *system) tables() []string {
	s.Helper()
	return strings.Fields(one[string](s, s.notifications,
		"SELECT string_agg(tablename::text, ' ') FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_db_version'"))
}

// fillDisk answers every write as PostgreSQL does that cannot extend a file.
func (s *system) fillDisk(*scriptedMail) {
	s.Helper()
	s.alter(`CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	for _, table := range s.tables() {
		s.alter("CREATE TRIGGER disk_full BEFORE INSERT OR UPDATE ON " + table + " FOR EACH ROW EXECUTE FUNCTION disk_full()")
	}
}

func (s *system) freeDisk(*scriptedMail) {
	s.Helper()
	s.alter("DROP FUNCTION disk_full CASCADE")
}
