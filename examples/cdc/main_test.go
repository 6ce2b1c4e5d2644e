package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

var shared servers.OfPackage

// TestMain is the program itself, if a test has started it.
func TestMain(m *testing.M) {
	if os.Getenv("CDC_PROGRAM") != "" {
		main()
		return
	}
	code, err := servers.RunTests(m, "cdc", func(s servers.OfPackage) error {
		shared = s
		ctx := context.Background()
		db, err := pgx.Connect(ctx, s.Database.URL("postgres"))
		if err != nil {
			return err
		}
		if _, err := db.Exec(ctx, "ALTER SYSTEM SET wal_level = logical"); err != nil {
			return err
		}
		if err := s.Database.Stop(ctx); err != nil {
			return err
		}
		return s.Database.Start(ctx)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "cdc:", err)
		code = 1
	}
	os.Exit(code)
}

func TestWhatIsCommittedArrivesInTheOrderOfCommits(t *testing.T) { //nolint:paralleltest // one slot
	s := newSystem(t)
	s.bind()
	s.start(s.amqpURL)
	other := s.connect()
	late, err := other.Begin(t.Context())
	check.Must(s, err)
	id := uuid.New()
	check.Must(s, changeOrder(t.Context(), late, id, "late")) // the first one in the log
	rolledBack, err := s.db.Begin(t.Context())
	check.Must(s, err)
	check.Must(s, changeOrder(t.Context(), rolledBack, uuid.New(), "rolled-back"))
	check.Must(s, rolledBack.Rollback(t.Context()))
	s.place()
	check.Must(s, changeOrder(t.Context(), late, id, "later"))
	check.Must(s, late.Commit(t.Context()))
	s.place()
	s.want("order.created", "order.confirmed", "order.late", "order.later", "order.created", "order.confirmed")
}

// TestAKillRepeatsAndLosesNothing between the broker's confirm and the acknowledgement. Then the
// connections are cut.
func TestAKillRepeatsAndLosesNothing(t *testing.T) { //nolint:paralleltest // one slot
	s := newSystem(t)
	s.bind()
	proxy, through := servers.ProxyFor(t, s.amqpURL)
	relay := s.start(through)
	s.place()
	s.want("order.created", "order.confirmed")
	s.awaitAcknowledged() // the broker's replies have arrived
	proxy.HoldReplies()
	s.place()
	s.want("order.created")
	s.awaitStatus()
	s.kill(relay)
	proxy.Resume()
	s.start(through)
	s.want("order.created", "order.confirmed")

	s.awaitAcknowledged()
	s.text("SELECT pg_terminate_backend(active_pid)::text FROM pg_replication_slots")
	proxy.Cut()
	s.place()
	s.want("order.created", "order.confirmed")
}

// TestAnEventWithoutAQueueHoldsAllLaterOnes also for another relay: nothing is acknowledged.
func TestAnEventWithoutAQueueHoldsAllLaterOnes(t *testing.T) { //nolint:paralleltest // one slot
	s := newSystem(t)
	relay := s.start(s.amqpURL)
	s.place()
	s.place()
	s.awaitStatus()
	s.kill(relay)
	s.start(s.amqpURL)
	s.awaitStatus()
	s.bind()
	s.want("order.created", "order.confirmed", "order.created", "order.confirmed")
}

// system has a database of its own, a slot and a connection to the broker.
type system struct {
	*testing.T
	databaseURL, amqpURL string
	db                   *pgx.Conn
	ch                   *amqp.Channel
	deliveries           <-chan amqp.Delivery
}

func newSystem(t *testing.T) *system {
	s := &system{T: t, databaseURL: shared.Database.URL("postgres"), amqpURL: shared.Broker.URL("/")}
	t.Setenv("DATABASE_URL", s.databaseURL)
	s.db = s.connect()
	t.Cleanup(func() {
		_, err := s.db.Exec(context.Background(), "DROP SCHEMA cdc CASCADE; DROP PUBLICATION cdc_outbox")
		check.Must(s, err)
		_, err = s.db.Exec(context.Background(), "SELECT pg_drop_replication_slot('cdc_outbox')")
		check.Must(s, err)
	})
	conn, err := amqp.Dial(s.amqpURL)
	check.Must(s, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.ch, err = conn.Channel()
	check.Must(s, err)
	check.Must(s, s.ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	return s
}

func (s *system) connect() *pgx.Conn {
	db, err := connect(s.Context())
	check.Must(s, err)
	s.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}

// bind makes a queue that lives as long as the test.
func (s *system) bind() {
	q, err := s.ch.QueueDeclare("", false, false, true, false, nil)
	check.Must(s, err)
	check.Must(s, s.ch.QueueBind(q.Name, "#", exchange, false, nil))
	s.deliveries, err = s.ch.Consume(q.Name, "", true, true, false, false, nil)
	check.Must(s, err)
}

// start starts the relay. It is killed when the test ends.
func (s *system) start(amqpURL string) *process.Process {
	log := filepath.Join(s.TempDir(), "log")
	command := exec.Command(os.Args[0], "relay")
	command.Env = []string{"CDC_PROGRAM=1", "DATABASE_URL=" + s.databaseURL, "AMQP_URL=" + amqpURL}
	relay, err := process.Start(command, process.WithParent, log)
	check.Must(s, err)
	s.Cleanup(func() {
		s.kill(relay)
		if s.Failed() {
			s.Logf("the relay said:\n%s", process.LastLines(log))
		}
	})
	return relay
}

func (s *system) place() { check.Must(s, placeOrder(s.Context(), s.db)) }

// want receives these topics, and nothing else in between.
func (s *system) want(topics ...string) {
	s.Helper()
	for i, want := range topics {
		d := check.Receive(s, s.deliveries, "message "+want)
		s.Logf("%s %s", d.RoutingKey, d.Body)
		if d.RoutingKey != want {
			s.Fatalf("message %d is %s, want %s", i, d.RoutingKey, want)
		}
	}
}

// awaitStatus waits until the relay has told PostgreSQL twice what it need not keep.
func (s *system) awaitStatus() {
	s.Helper()
	const query = "SELECT coalesce(max(reply_time)::text, '') FROM pg_stat_replication"
	for range 3 { // the first one may be older
		last := s.text(query)
		check.Await(s, "a status", func() bool { return s.text(query) != last })
	}
}

// awaitAcknowledged waits until the relay has acknowledged all that is in the log.
func (s *system) awaitAcknowledged() {
	s.Helper()
	end := s.text("SELECT pg_current_wal_lsn()::text")
	check.Await(s, "an acknowledgement", func() bool {
		return s.text("SELECT (confirmed_flush_lsn >= '"+end+"')::text FROM pg_replication_slots") == "true"
	})
}

// kill ends a relay, if it has not ended, and waits until the slot is free.
func (s *system) kill(relay *process.Process) {
	s.Helper()
	_ = relay.Signal(syscall.SIGKILL)
	_ = relay.Wait(context.Background())
	check.Await(s, "a slot without a relay", func() bool {
		return s.text("SELECT bool_or(active)::text FROM pg_replication_slots") == "false"
	})
}

func (s *system) text(query string) (result string) {
	s.Helper()
	check.Must(s, s.db.QueryRow(context.Background(), query).Scan(&result))
	return result
}
