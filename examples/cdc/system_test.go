package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/servers/process"
)

// longest bounds each wait of a test.
const longest = 60 * time.Second

// system is a database, a queue that gets all messages, and the processes of one test.
type system struct {
	*testing.T
	name  string
	url   string
	pool  *pgxpool.Pool
	queue queue
	ids   map[uuid.UUID]bool // of the events
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{T: t, name: "cdc_" + strings.ToLower(rand.Text()), ids: map[uuid.UUID]bool{}}
	admin := openPool(t, shared.Database.URL("postgres"))
	mustExec(t, admin, "CREATE DATABASE "+s.name)
	t.Cleanup(func() {
		mustExec(t, admin, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1`, s.name)
		mustExec(t, admin, "DROP DATABASE "+s.name+" WITH (FORCE)")
	})
	s.url = shared.Database.URL(s.name)
	s.pool = openPool(t, s.url)
	if err := outbox.Migrate(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	s.queue = newQueue(t, s.name, "#", nil)
	return s
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if _, err := pool.Exec(ctx, sql, args...); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// proc is a process of the program.
type proc struct {
	*process.Process
	s   *system
	log string
}

// noPoll makes the relay look into the table once an hour. So what is published came from
// the log.
const noPoll = "RELAY_POLL_INTERVAL=1h"

// start starts the program with these settings.
func (s *system) start(settings ...string) *proc {
	s.Helper()
	folder := s.TempDir()
	r := &proc{s: s, log: filepath.Join(folder, "log")}
	cmd := exec.Command(shared.program)
	cmd.Env = append(s.environment(), settings...)
	var err error
	if r.Process, err = process.Start(cmd, process.WithParent, r.log); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = r.Signal(syscall.SIGCONT)
		r.kill()
		if s.Failed() {
			s.Logf("a relay's log:\n%s", process.LastLines(r.log))
		}
	})
	return r
}

func (s *system) environment() []string {
	return append(os.Environ(), "APP_ENV=demo", "DATABASE_URL="+s.url, "AMQP_URL="+shared.Broker.URL("/"),
		"OPS_ADDR=127.0.0.1:0", "CDC_SLOT="+s.name, "CDC_TIMEOUT=2s")
}

// startReading starts the program and waits until it reads the slot.
func (s *system) startReading(settings ...string) *proc {
	s.Helper()
	r := s.start(settings...)
	r.awaitLog("reading the log")
	return r
}

func (r *proc) awaitLog(text string) {
	r.s.Helper()
	r.s.await("the log to have: "+text, func() bool { return strings.Contains(r.logged(), text) })
}

// awaitReading waits until the relay has begun so many times to read the slot.
func (r *proc) awaitReading(times int) {
	r.s.Helper()
	r.s.await("the reader to read again", func() bool { return strings.Count(r.logged(), `"reading the log"`) == times })
}

func (r *proc) logged() string {
	content, err := os.ReadFile(r.log)
	if err != nil {
		r.s.Fatal(err)
	}
	return string(content)
}

func (r *proc) lastLine() string {
	lines := strings.Split(strings.TrimSpace(r.logged()), "\n")
	return lines[len(lines)-1]
}

// stop ends the process with a SIGTERM.
func (r *proc) stop() {
	r.s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if err := r.End(ctx, syscall.SIGTERM); err != nil {
		r.s.Fatal(err)
	}
	if code := r.State().ExitCode(); code != 0 {
		r.s.Fatalf("exit code %d", code)
	}
}

func (r *proc) kill() {
	r.s.Helper()
	if !r.Alive() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if err := r.End(ctx, syscall.SIGKILL); err != nil {
		r.s.Error(err)
	}
}

// await polls until done is true.
func (s *system) await(what string, done func() bool) {
	s.Helper()
	for end := time.Now().Add(longest); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited in vain for %s", what)
		}
	}
}

// scan reads one value.
func scan[V any](s *system, sql string, args ...any) (v V) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), sql, args...).Scan(&v); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return v
}

// append commits one transaction with one event for each version of an order.
func (s *system) append(order uuid.UUID, topic string, versions ...int) (ids []uuid.UUID) {
	s.Helper()
	for _, version := range versions {
		e := outbox.Event{
			ID: uuid.Must(uuid.NewV7()), Aggregate: "order", AggregateID: order.String(), Version: version, Topic: topic,
			Payload: fmt.Appendf(nil, `{"order_id": "%s", "order_version": %d}`, order, version),
		}
		err := pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) error { return outbox.Append(s.Context(), tx, e) })
		if err != nil {
			s.Fatal(err)
		}
		ids, s.ids[e.ID] = append(ids, e.ID), true
	}
	return ids
}

// orders commits n orders with one event each.
func (s *system) orders(n int) {
	s.Helper()
	for range n {
		s.append(uuid.New(), "order.created", 1)
	}
}

// awaitQueue returns when the outbox's queue has so many rows left.
func (s *system) awaitQueue(left int) {
	s.Helper()
	s.await(fmt.Sprintf("%d events in the outbox's queue", left), func() bool {
		var n int
		err := s.pool.QueryRow(s.Context(), "SELECT count(*) FROM outbox_queue").Scan(&n)
		return err == nil && n == left
	})
}

// heldWAL is how much of the log the slot holds, from its acknowledged position on.
func (s *system) heldWAL() int64 {
	s.Helper()
	return scan[int64](s, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint
		FROM pg_replication_slots WHERE slot_name = $1`, s.name)
}

// reader is the process of PostgreSQL that sends the log, or 0.
func (s *system) reader() int {
	s.Helper()
	return scan[int](s, "SELECT coalesce(max(active_pid), 0) FROM pg_replication_slots WHERE slot_name = $1", s.name)
}
