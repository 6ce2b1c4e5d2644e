package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// limit bounds each wait of a test. No promise rests on it.
const limit = 2 * time.Minute

// system is what one test has to itself.
type system struct {
	*testing.T
	databaseURL, brokerURL string
	db                     *pgx.Conn
}

func newSystem(t *testing.T) *system {
	t.Helper()
	vhost, err := broker.NewVhost(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	s := &system{T: t, databaseURL: servers.Database(t) + "&search_path=minimal", brokerURL: broker.URL(vhost)}
	db, err := pgx.Connect(t.Context(), s.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	s.db = db
	return s
}

// program is a running `minimal`.
type program struct {
	*process.Process
	s    *system
	name string
	log  string
}

func (s *system) start(args ...string) *program {
	s.Helper()
	return s.startOn(s.brokerURL, args...)
}

// startOn starts the program with its own way to the broker. It is killed when the test ends.
func (s *system) startOn(brokerURL string, args ...string) *program {
	s.Helper()
	p := &program{s: s, name: strings.Join(args, " "), log: filepath.Join(s.TempDir(), "log")}
	command := exec.Command(binary, args...)
	command.Env = []string{"DATABASE_URL=" + s.databaseURL, "AMQP_URL=" + brokerURL}
	var err error
	if p.Process, err = process.Start(command, process.WithParent, p.log); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		p.kill()
		if s.Failed() {
			s.Logf("%s said:\n%s", p.name, process.LastLines(p.log))
		}
	})
	return p
}

// place places an order, and creates the tables if need be.
func (s *system) place() {
	s.Helper()
	p := s.start("order", "1")
	p.wait()
	p.wantExit(0)
}

func (p *program) kill() {
	p.s.Helper()
	p.end(syscall.SIGKILL)
}

// stop wants the program to end well.
func (p *program) stop() {
	p.s.Helper()
	p.end(syscall.SIGTERM)
	p.wantExit(0)
}

func (p *program) end(signal syscall.Signal) {
	p.s.Helper()
	if err := p.Signal(signal); err != nil {
		p.s.Fatal(err)
	}
	p.wait()
}

func (p *program) wait() {
	p.s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		p.s.Fatalf("%s: %v", p.name, err)
	}
}

func (p *program) wantExit(code int) {
	p.s.Helper()
	if got := p.State().ExitCode(); got != code {
		p.s.Fatalf("%s ended with %d, want %d:\n%s", p.name, got, code, process.LastLines(p.log))
	}
}

// said counts a text in the program's log.
func (p *program) said(text string) int {
	content, err := os.ReadFile(p.log)
	if err != nil {
		p.s.Fatal(err)
	}
	return strings.Count(string(content), text)
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

// count runs a query for one number.
func (s *system) count(query string) (n int) {
	s.Helper()
	if err := s.db.QueryRow(s.Context(), query).Scan(&n); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	return n
}

func (s *system) outbox() int        { return s.count("SELECT count(*) FROM outbox") }
func (s *system) notifications() int { return s.count("SELECT count(*) FROM notifications") }

// awaitAll returns when nothing waits, neither an event nor a message, and all have had an effect.
func (s *system) awaitAll() {
	s.Helper()
	ch := s.channel()
	s.await("all events published and handled", func() bool {
		return s.outbox() == 0 && s.waiting(ch, "minimal.notifications") == 0 &&
			s.notifications() >= s.count("SELECT sum(version) FROM orders")
	})
}

// waiting counts the messages of a queue that is there.
func (s *system) waiting(ch *amqp.Channel, queue string) int {
	s.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		s.Fatal(err)
	}
	return q.Messages
}

func (s *system) exec(statements string) {
	s.Helper()
	if _, err := s.db.Exec(s.Context(), statements); err != nil {
		s.Fatalf("%s: %v", statements, err)
	}
}

// wantOneNotificationEach compares each order with its notifications, in the order in which they
// were written.
func (s *system) wantOneNotificationEach() {
	s.Helper()
	rows, _ := s.db.Query(s.Context(), `
		SELECT o.id::text, array_agg(n.version ORDER BY n.id)::text, array(SELECT generate_series(1, o.version))::text
		FROM orders o LEFT JOIN notifications n ON n.order_id = o.id GROUP BY o.id`)
	orders := 0
	var id, got, want string
	_, err := pgx.ForEachRow(rows, []any{&id, &got, &want}, func() error {
		orders++
		if got != want {
			s.Errorf("order %s has notifications of the versions %s, want %s", id, got, want)
		}
		return nil
	})
	if err != nil || orders == 0 {
		s.Fatalf("%d orders: %v", orders, err)
	}
}

// lockOutbox lets nobody insert or delete, until ROLLBACK. A relay may still claim.
func (s *system) lockOutbox() {
	s.Helper()
	s.exec("BEGIN; LOCK TABLE outbox IN SHARE MODE")
}

// awaitLocked returns when a program waits for the outbox.
func (s *system) awaitLocked() {
	s.Helper()
	s.await("a program that waits for the lock", func() bool {
		return s.count("SELECT count(*) FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted") > 0
	})
}

// channel is the test's own.
func (s *system) channel() *amqp.Channel {
	s.Helper()
	conn, err := amqp.Dial(s.brokerURL)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		s.Fatal(err)
	}
	return ch
}

// bindQueue makes a queue of the test for all events.
func (s *system) bindQueue(ch *amqp.Channel, arguments amqp.Table) string {
	s.Helper()
	const exchange, queue = "minimal.orders", "of-the-test"
	_, err := ch.QueueDeclare(queue, true, false, false, false, arguments)
	err = errors.Join(err, ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil),
		ch.QueueBind(queue, "order.*", exchange, false, nil))
	if err != nil {
		s.Fatal(err)
	}
	return queue
}

// get takes a message, and returns its order's version.
func (s *system) get(ch *amqp.Channel, queue string) int {
	s.Helper()
	var event struct{ Version int }
	m, ok, err := ch.Get(queue, true)
	if err == nil && ok {
		err = json.Unmarshal(m.Body, &event)
	}
	if err != nil || !ok {
		s.Fatalf("a message: %t, %v", ok, err)
	}
	return event.Version
}
