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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestP2P5SIGKILLsLoseNothingAndRepeatNoEffect kills publisher and consumer in turn, at random
// moments, while orders are placed and some are rolled back at their commit.
func TestP2P5SIGKILLsLoseNothingAndRepeatNoEffect(t *testing.T) {
	t.Parallel()
	const kills, between = 12, 20
	s := newSystem(t)
	s.programs = []*program{s.start("publisher", s.orders), s.start("consumer", s.notifications)}
	check.Await(s, "an effect", func() bool { return s.effects() > 0 })
	s.rollBack(0.2)
	for i := range kills {
		want := s.effects() + 1 + rand.IntN(between)
		check.Await(s, "progress", func() bool { return s.effects() >= want })
		time.Sleep(rand.N(20 * time.Millisecond)) // a random moment of a transaction, a publish or an ack
		s.kill(i % len(s.programs))
	}
	s.rollBack(1) // no more orders
	check.Await(s, "all events published and handled", func() bool {
		s.endLeases()
		return s.count(s.orders, "SELECT count(*) FROM outbox_queue") == 0 && s.effects() >= s.count(s.orders, "SELECT count(*) FROM orders")
	})
	for _, p := range s.programs {
		if code, err := p.Stop(t.Context()); code != 0 || err != nil {
			t.Errorf("%s ended with %d, %v", p.name, code, err)
		}
	}
	lines, err := s.programs[0].Lines()
	check.Must(t, err)
	if !strings.Contains(fmt.Sprint(lines), "rolled back") {
		t.Error("no order was rolled back")
	}
	orders := check.Value[[]string](t, s.orders, "SELECT array_agg(id ORDER BY id COLLATE \"C\") FROM orders")
	effects := check.Value[[]string](t, s.notifications, "SELECT array_agg(order_id ORDER BY order_id COLLATE \"C\") FROM notifications")
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
	check.Run(t, build)
	s.orders, s.notifications = open(t), open(t)
	return s
}

// kill ends a program and starts it again.
func (s *system) kill(i int) {
	s.Helper()
	old := s.programs[i]
	check.Must(s, old.Kill(s.Context()))
	s.programs[i] = s.start(old.name, old.database)
}

func (s *system) effects() int {
	s.Helper()
	if s.count(s.notifications, "SELECT count(*) FROM pg_tables WHERE tablename = 'notifications'") == 0 {
		return 0
	}
	return s.count(s.notifications, "SELECT count(*) FROM notifications")
}

// rollBack makes this share of all commits fail: the order and its event are both written then.
func (s *system) rollBack(share float64) {
	s.Helper()
	check.Exec(s, s.orders, fmt.Sprintf(`
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
	check.Exec(s, s.orders, "UPDATE outbox_claims SET until = now() WHERE until < now() + interval '55 seconds'")
}

// program is a running publisher or consumer.
type program struct {
	*services.Process
	name     string
	database database
}

// start starts a program, which is killed when the test ends.
func (s *system) start(name string, db database) *program {
	s.Helper()
	log := filepath.Join(s.TempDir(), "log")
	p, err := services.Start(filepath.Join(s.binaries, name), "", log, "DATABASE_URL="+db.url, "AMQP_URL="+s.broker)
	check.Must(s, err)
	s.Cleanup(func() {
		check.Must(s, p.Kill(context.Background()))
		if s.Failed() {
			s.Logf("%s said:\n%s", name, process.LastLines(log))
		}
	})
	return &program{p, name, db}
}

// database is one of the test's own, with a connection.
type database struct {
	url string
	*pgx.Conn
}

func open(t *testing.T) database {
	t.Helper()
	d := database{url: servers.Database(t)}
	var err error
	d.Conn, err = pgx.Connect(t.Context(), d.url)
	check.Must(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

func (s *system) count(db database, sql string) int {
	s.Helper()
	return check.Value[int](s, db, sql)
}
