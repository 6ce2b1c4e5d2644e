package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/examples/nats/natstest"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// limit is how long a test waits for an event before it fails.
const limit = time.Minute

// system is both services' databases, a NATS server, and the programs.
type system struct {
	*testing.T
	nats          *natstest.Server
	js            jetstream.JetStream
	orders        *pgxpool.Pool // the database with the outbox
	ordersURL     string
	notifications string            // URL of the database
	programs      map[string]string // their paths
	logs          string            // a folder
	placed        int
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{T: t, nats: natstest.Start(t, natstest.SyncAlways), logs: t.TempDir()}
	s.ordersURL = servers.Database(t)
	pool, err := pgxpool.New(t.Context(), s.ordersURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := outbox.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	s.orders = pool
	_, s.notifications = postgrestest.Migrated(t, migrations.Schema)
	s.programs = map[string]string{"relay": natstest.Program(t, ".", "."), "consumer": natstest.Program(t, "consumer", ".")}
	js, err := jetstream.New(s.nats.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	s.js = js
	return s
}

// relay starts a relay. Extra are settings.
func (s *system) relay(extra ...string) *process.Process {
	s.Helper()
	return s.start("relay", s.ordersURL, append(extra,
		"NATS_MONITORING_URLS="+s.nats.Monitoring, "RELAY_LEASE=5s", "RELAY_CONFIRM_TIMEOUT=1s", "RELAY_WINDOW=10",
		"NATS_DEDUPE=100ms")) // so that repeats reach the consumer
}

func (s *system) consumer(extra ...string) *process.Process {
	s.Helper()
	return s.start("consumer", s.notifications, append(extra, "NATS_ACK_WAIT=3s"))
}

func (s *system) log(name string) string { return filepath.Join(s.logs, name) }

func (s *system) start(name, database string, settings []string) *process.Process {
	s.Helper()
	cmd := exec.Command(s.programs[name])
	cmd.Env = append(os.Environ(), "DATABASE_URL="+database, "NATS_URL="+s.nats.URL(), "OPS_ADDR=127.0.0.1:0")
	cmd.Env = append(cmd.Env, settings...)
	p, err := process.Start(cmd, process.WithParent, s.log(name))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.end(p, syscall.SIGKILL) })
	return p
}

// end sends a signal and waits for the end.
func (s *system) end(p *process.Process, signal syscall.Signal) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := p.End(ctx, signal); err != nil {
		s.Error(err)
	}
}

// awaitDeath waits until a process has killed itself.
func (s *system) awaitDeath(p *process.Process) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		s.Fatal(err)
	}
	if status, ok := p.State().Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		s.Fatalf("the process ended with %s, want a SIGKILL", p.State())
	}
}

// place appends the events of n orders. Each second order is confirmed, and so has two events.
func (s *system) place(n int) {
	s.Helper()
	for range n {
		id := uuid.New()
		s.append(id, "created", 1)
		if s.placed++; s.placed%2 == 0 {
			s.append(id, "confirmed", 2)
		}
	}
}

func (s *system) append(order uuid.UUID, what string, version int) {
	s.Helper()
	payload := fmt.Appendf(nil, `{"order_id":%q,"order_version":%d,"customer_id":%q,"product_id":"sku123","quantity":1,
		"amount":2999,"currency":"GBP","status":"pending","occurred_at":"2026-01-02T03:04:05Z"}`, order, version, uuid.New())
	err := pgx.BeginFunc(s.Context(), s.orders, func(tx pgx.Tx) error {
		return outbox.Append(s.Context(), tx, outbox.Event{
			Topic: "order." + what, Aggregate: "order", AggregateID: order.String(), Version: version, Payload: payload,
		})
	})
	if err != nil {
		s.Error(err)
	}
}

// read runs a query that returns one column.
func read[T any](s *system, url, query string, args ...any) []T {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), url)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(s.Context(), query, args...)
	if err != nil {
		s.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		s.Fatal(err)
	}
	return values
}

// await waits until a query's number is at least n.
func (s *system) await(what, url, query string, n int) {
	s.Helper()
	s.until(what, func() bool { return read[int](s, url, query)[0] >= n })
}

func (s *system) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within %s: %s\n%s\n%s", limit, what,
				process.LastLines(s.log("relay")), process.LastLines(s.log("consumer")))
		}
	}
}
