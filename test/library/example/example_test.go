// Package example_test proves that the programs of examples/library lose nothing when they are killed.
package example_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds each wait of a test. No promise rests on it.
const limit = 2 * time.Minute

// TestP2P5SIGKILLsLoseNothingAndRepeatNoEffect kills publisher and consumer in turn, at random
// moments, while orders are placed and some are rolled back at their commit.
func TestP2P5SIGKILLsLoseNothingAndRepeatNoEffect(t *testing.T) {
	t.Parallel()
	const kills, between = 12, 20
	s := newSystem(t)
	s.programs = []*program{s.start("publisher", s.orders), s.start("consumer", s.notifications)}
	s.await("an effect", func() bool { return s.effects() > 0 })
	s.rollBack(0.2)
	for i := range kills {
		want := s.effects() + 1 + rand.IntN(between)
		s.await("progress", func() bool { return s.effects() >= want })
		time.Sleep(rand.N(20 * time.Millisecond)) // a random moment of a transaction, a publish or an ack
		s.kill(i % len(s.programs))
	}
	s.rollBack(1) // no more orders
	s.await("all events published and handled", func() bool {
		s.endLeases()
		return s.orders.count("SELECT count(*) FROM outbox_queue") == 0 && s.effects() >= s.orders.count("SELECT count(*) FROM orders")
	})
	for _, p := range s.programs {
		p.end(syscall.SIGTERM)
		if code := p.State().ExitCode(); code != 0 {
			t.Errorf("%s ended with %d:\n%s", p.name, code, process.LastLines(p.log))
		}
	}
	if !s.programs[0].said("rolled back") {
		t.Error("no order was rolled back")
	}
	orders := s.orders.list("SELECT id FROM orders ORDER BY id COLLATE \"C\"")
	effects := s.notifications.list("SELECT order_id FROM notifications ORDER BY order_id COLLATE \"C\"")
	if !slices.Equal(orders, effects) {
		t.Errorf("%d orders and %d effects differ:\n%q\n%q", len(orders), len(effects), orders, effects)
	}
	t.Logf("%d orders", len(orders))
}

// system is what the test has to itself: a broker, and a database for each program.
type system struct {
	*testing.T
	binaries, broker      string
	orders, notifications database
	programs              []*program
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{T: t, binaries: t.TempDir(), broker: servers.RabbitMQ(t).URL("/")}
	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", s.binaries, "./...")
	build.Dir, build.Env = "../../../examples/library", append(os.Environ(), "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
	s.orders, s.notifications = open(t), open(t)
	return s
}

// kill ends a program and starts it again.
func (s *system) kill(i int) {
	s.Helper()
	old := s.programs[i]
	old.end(syscall.SIGKILL)
	s.programs[i] = s.start(old.name, old.database)
}

func (s *system) effects() int {
	s.Helper()
	if s.notifications.count("SELECT count(*) FROM pg_tables WHERE tablename = 'notifications'") == 0 {
		return 0
	}
	return s.notifications.count("SELECT count(*) FROM notifications")
}

// rollBack makes this share of all commits fail: the order and its event are both written then.
func (s *system) rollBack(share float64) {
	s.Helper()
	s.orders.exec(fmt.Sprintf(`
		CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN IF random() < %g THEN RAISE ''refused''; END IF; RETURN NULL; END';
		DROP TRIGGER IF EXISTS refuse ON orders;
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION refuse()`, share))
}

// endLeases ends the leases of the publishers that were killed, so that the test need not wait for
// them. A live one may lose a lease too: then it publishes again.
func (s *system) endLeases() {
	s.Helper()
	s.orders.exec("UPDATE outbox_claims SET until = now() WHERE until < now() + interval '55 seconds'")
}

// program is a running publisher or consumer.
type program struct {
	*process.Process
	s         *system
	name, log string
	database  database
}

// start starts a program, which is killed when the test ends.
func (s *system) start(name string, db database) *program {
	s.Helper()
	p := &program{s: s, name: name, database: db, log: filepath.Join(s.TempDir(), "log")}
	command := exec.Command(filepath.Join(s.binaries, name))
	command.Env = []string{"DATABASE_URL=" + db.url, "AMQP_URL=" + s.broker}
	var err error
	if p.Process, err = process.Start(command, process.WithParent, p.log); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if s.Failed() {
			s.Logf("%s said:\n%s", name, process.LastLines(p.log))
		}
	})
	return p
}

func (p *program) end(signal syscall.Signal) {
	p.s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := p.End(ctx, signal); err != nil {
		p.s.Fatalf("%s: %v", p.name, err)
	}
}

func (p *program) said(text string) bool {
	content, err := os.ReadFile(p.log)
	if err != nil {
		p.s.Fatal(err)
	}
	return strings.Contains(string(content), text)
}

// await asks until the answer is yes.
func (s *system) await(what string, yes func() bool) {
	s.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(limit); !yes(); {
		select {
		case <-tick.C:
		case <-late:
			s.Fatalf("after %s not yet: %s", limit, what)
		}
	}
}

// database is one of the test's own, with a connection.
type database struct {
	*testing.T
	url string
	*pgx.Conn
}

func open(t *testing.T) database {
	t.Helper()
	d := database{T: t, url: servers.Database(t)}
	var err error
	if d.Conn, err = pgx.Connect(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

func (d database) exec(sql string) {
	d.Helper()
	if _, err := d.Exec(d.Context(), sql); err != nil {
		d.Fatalf("%s: %v", sql, err)
	}
}

func (d database) count(sql string) (n int) {
	d.Helper()
	if err := d.QueryRow(d.Context(), sql).Scan(&n); err != nil {
		d.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (d database) list(sql string) []string {
	d.Helper()
	rows, _ := d.Query(d.Context(), sql)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		d.Fatalf("%s: %v", sql, err)
	}
	return list
}
