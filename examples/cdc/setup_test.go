package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestWhatIsWrongIsNamed starts the program on a database where it cannot read the log. It says
// what to do, and the poll of the table publishes meanwhile.
func TestWhatIsWrongIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prepare, user, says string }{
		"the role may not replicate": {
			prepare: `CREATE ROLE %s LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO %[1]s`, user: "role", says: "ALTER ROLE … REPLICATION",
		},
		"the role may not publish": {
			prepare: `CREATE ROLE %s LOGIN REPLICATION; GRANT ALL ON ALL TABLES IN SCHEMA public TO %[1]s`, user: "role", says: "run `cdc setup`",
		},
		"the publication has other tables": {
			prepare: `CREATE TABLE orders (); CREATE PUBLICATION order_service_cdc FOR TABLE orders`, says: "the publication order_service_cdc is not for",
		},
		"the publication has no root": {
			prepare: `CREATE PUBLICATION order_service_cdc FOR TABLE outbox_events WITH (publish = 'insert')`,
			says:    "the publication order_service_cdc is not for",
		},
		"the slot is of another plugin": {
			prepare: `SELECT pg_create_logical_replication_slot('%s', 'test_decoding')`, says: "set CDC_SLOT to another name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			mustExec(t, s.pool, strings.ReplaceAll(strings.ReplaceAll(c.prepare, "%s", s.name), "%[1]s", s.name))
			settings := []string{"RELAY_POLL_INTERVAL=200ms"}
			if c.user != "" {
				dropRoleAtTheEnd(t, s.pool, s.name)
				settings = append(settings, "DATABASE_URL="+strings.Replace(s.url, "postgres@", s.name+"@", 1))
			}
			r := s.start(settings...)
			r.awaitLog(c.says)
			s.orders(3)
			s.awaitQueue(0)
			s.wantOnceAndInOrder()
		})
	}
}

func dropRoleAtTheEnd(t *testing.T, pool *pgxpool.Pool, role string) {
	t.Helper()
	t.Cleanup(func() { mustExec(t, pool, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role) })
}

// TestAServerWithoutLogicalLogIsNamed uses a server whose wal_level is replica.
func TestAServerWithoutLogicalLogIsNamed(t *testing.T) { //nolint:paralleltest // it changes the servers
	if err := setParameters(map[string]string{"wal_level": "replica", "max_slot_wal_keep_size": "-1"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := setParameters(nil); err != nil {
			t.Error(err)
		}
	})
	s := newSystem(t)
	r := s.start("RELAY_POLL_INTERVAL=200ms")
	r.awaitLog("set wal_level = logical")
	s.orders(3)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}

// TestTheOwnerSetsUpForARoleWithFewerRights runs the three commands.
func TestTheOwnerSetsUpForARoleWithFewerRights(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.command("setup")
	s.command("setup") // changes nothing
	mustExec(t, s.pool, "CREATE ROLE "+s.name+" LOGIN REPLICATION; GRANT ALL ON ALL TABLES IN SCHEMA public TO "+s.name)
	dropRoleAtTheEnd(t, s.pool, s.name)
	r := s.startReading(noPoll, "DATABASE_URL="+strings.Replace(s.url, "postgres@", s.name+"@", 1))
	s.orders(3)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
	r.kill()
	s.await("the slot to be free", func() bool { return s.reader() == 0 })
	s.command("drop")
	if left := scan[int](s, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1", s.name); left > 0 {
		t.Error("the slot was not dropped")
	}
}

func (s *system) command(name string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.program, name)
	cmd.Env = s.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// TestAPublicationThatIsYoungerThanItsSlotIsUsed drops the publication while nobody reads. The slot
// cannot send what came before the new publication: PostgreSQL answers that there is none, so the
// slot is made anew. From version 18 on it skips that part.
func TestAPublicationThatIsYoungerThanItsSlotIsUsed(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.command("setup")
	mustExec(t, s.pool, "DROP PUBLICATION order_service_cdc")
	s.orders(5)
	r := s.startReading()
	if scan[int](s, "SELECT current_setting('server_version_num')::int") < 18_00_00 {
		r.awaitReading(2)
	}
	s.awaitQueue(0)
	s.orders(5)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}
