package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// system has a database and a virtual host of its own.
type system struct {
	*testing.T
	databaseURL, brokerURL string
	db                     *pgx.Conn
	broker                 *amqp.Connection
	ch                     *amqp.Channel
	programs               []*program
}

func newSystem(t *testing.T, broker *servers.RabbitMQServer) *system {
	t.Helper()
	vhost, err := broker.NewVhost(t.Context(), "../..")
	s := &system{T: t, databaseURL: servers.Database(t) + "&search_path=minimal", brokerURL: broker.URL(vhost)}
	check.Must(s, err)
	s.db, err = pgx.Connect(t.Context(), s.databaseURL)
	check.Must(s, err)
	t.Cleanup(func() { _ = s.db.Close(context.Background()) })
	check.Exec(s, s.db, setup)
	s.broker, err = amqp.Dial(s.brokerURL)
	check.Must(s, err)
	t.Cleanup(func() { _ = s.broker.Close() })
	s.ch, err = s.broker.Channel()
	check.Must(s, err)
	check.Must(s, s.ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	return s
}

// program is a running `minimal`. It is killed when the test ends.
type program struct{ *exec.Cmd }

func (s *system) start(args ...string) *program {
	s.Helper()
	p := &program{exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), "MINIMAL_TEST=program", "DATABASE_URL="+s.databaseURL, "AMQP_URL="+s.brokerURL)
	p.Stdout, p.Stderr = s.Output(), s.Output()
	check.Must(s, p.Start())
	s.Cleanup(p.kill)
	s.programs = append(s.programs, p)
	return p
}

// startConsumer waits until the consumer has declared its queue.
func (s *system) startConsumer() *program {
	s.Helper()
	p := s.start("consume")
	check.Await(s, "the consumer", func() bool { return s.inspect(queue).Consumers == 1 })
	return p
}

func (p *program) kill() {
	_ = p.Process.Kill() // an error if it has ended
	_ = p.Wait()
}

func (p *program) wait() error {
	late := time.AfterFunc(check.Limit, func() { _ = p.Process.Kill() })
	defer late.Stop()
	return p.Wait()
}

// finish waits until all events have had their effects, and ends the programs. Then it compares
// each order with its notifications, in the order in which they were written.
func (s *system) finish() {
	s.Helper()
	check.Await(s, "all events published and handled", func() bool {
		return s.outbox() == 0 && s.inspect(queue).Messages == 0 &&
			s.notifications() >= s.count("SELECT sum(version) FROM orders")
	})
	for _, p := range s.programs {
		if p.ProcessState == nil { // it still runs
			check.Must(s, p.Process.Signal(syscall.SIGTERM))
			check.Must(s, p.wait())
		}
	}
	wrong := check.Value[string](s, s.db, `
		SELECT coalesce(string_agg(concat_ws(' ', id, got), E'\n'), '') FROM (
		  SELECT o.id, array_agg(n.version ORDER BY n.id) got, array(SELECT generate_series(1, o.version)) want
		  FROM orders o FULL JOIN notifications n ON n.order_id = o.id GROUP BY o.id) each
		WHERE got IS DISTINCT FROM want`)
	if wrong != "" {
		s.Errorf("these orders have notifications of the wrong versions:\n%s", wrong)
	}
}

// place places an order, which has three events.
func (s *system) place() {
	s.Helper()
	check.Must(s, placeOrders(s.Context(), s.db, 1))
}

func (s *system) count(query string) int {
	s.Helper()
	return check.Value[int](s, s.db, query)
}

func (s *system) outbox() int { return s.count("SELECT count(*) FROM outbox") }
func (s *system) putOff() int {
	return s.count("SELECT count(*) FROM outbox WHERE available_at > now()")
}
func (s *system) notifications() int { return s.count("SELECT count(*) FROM notifications") }

// lockOutbox lets programs read the outbox until ROLLBACK. They cannot insert or delete.
func (s *system) lockOutbox() {
	s.Helper()
	check.Exec(s, s.db, "BEGIN; LOCK TABLE outbox IN SHARE MODE")
}

func (s *system) awaitLocked() {
	s.Helper()
	check.Await(s, "a program that waits for the lock", func() bool {
		return s.count("SELECT count(*) FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted") > 0
	})
}

// inspect returns zeros for a queue that is not declared.
func (s *system) inspect(queue string) amqp.Queue {
	s.Helper()
	ch, err := s.broker.Channel()
	check.Must(s, err)
	defer func() { _ = ch.Close() }()
	q, _ := ch.QueueDeclarePassive(queue, true, false, false, false, nil) // an error closes the channel
	return q
}
