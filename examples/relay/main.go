// Command relay is the relay of the tutorial, as far as the given step has built it. It places
// orders, publishes their events, and shows what is where.
//
//	relay -step locks                          claim with row locks, publish
//	relay -step confirms -bind order.created   … and wait for confirms and returns
//	relay -step lease                          … and claim with a lease instead
//	relay -step order                          … and keep the events of an order in order
//
// DATABASE_URL and AMQP_URL say where PostgreSQL and RabbitMQ are.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

const setup = `
SET search_path = example_relay;
SELECT pg_advisory_xact_lock(hashtext('example_relay'));
CREATE SCHEMA IF NOT EXISTS example_relay;
CREATE TABLE IF NOT EXISTS outbox (
  seq bigint GENERATED ALWAYS AS IDENTITY,
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  order_id uuid NOT NULL, version int NOT NULL, UNIQUE (order_id, version),
  event_key text NOT NULL, payload jsonb NOT NULL,
  available_at timestamptz NOT NULL DEFAULT now()); -- from the step lease on
CREATE TABLE IF NOT EXISTS claims ( -- from the step lease on
  token uuid PRIMARY KEY, until timestamptz NOT NULL, events uuid[] NOT NULL)`

// event is a row of the outbox.
type event struct {
	ID      uuid.UUID
	Key     string
	Payload []byte
}

func (e event) message() amqp.Publishing {
	return amqp.Publishing{MessageId: e.ID.String(), DeliveryMode: amqp.Persistent, Body: e.Payload}
}

type relay struct {
	db       *pgx.Conn
	ch       *amqp.Channel
	returns  <-chan amqp.Return
	exchange string
}

// publish returns the ids of the events that are published.
type publish func(ctx context.Context, events []event) ([]uuid.UUID, error)

// step is how the relay publishes at a step, and how it claims: one pass is one batch.
type step struct {
	publish func(*relay) publish
	pass    func(*relay, context.Context, publish) (published int, err error)
}

var steps = map[string]step{
	"locks":    {(*relay).withoutConfirms, (*relay).passWithLocks},
	"confirms": {(*relay).withConfirms, (*relay).passWithLocks},
	"lease":    {(*relay).withConfirms, (*relay).passWithLease},
	"order":    {(*relay).withConfirms, (*relay).passInOrder},
}

func main() {
	name := flag.String("step", "locks", "locks, confirms, lease or order")
	bind := flag.String("bind", "order.*", "the routing key that a queue is bound with")
	flag.Parse()
	chosen, known := steps[*name]
	if !known {
		fmt.Fprintf(os.Stderr, "relay: there is no -step %s: use locks, confirms, lease or order\n", *name)
		os.Exit(2)
	}
	if err := run(context.Background(), chosen, *bind); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, chosen step, bind string) error {
	db, err := pgx.Connect(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "not set"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer func() { _ = db.Close(ctx) }()
	broker, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return fmt.Errorf("AMQP_URL: %w", err)
	}
	defer func() { _ = broker.Close() }()
	r, queue, err := open(ctx, db, broker, bind)
	if err != nil {
		return err
	}
	if _, err := db.Exec(ctx, "TRUNCATE outbox, claims"); err != nil { // of the last run
		return fmt.Errorf("emptying the tables: %w", err)
	}
	return r.show(ctx, chosen, queue)
}

// open creates the tables, and declares an exchange and a queue that end with the connection.
func open(ctx context.Context, db *pgx.Conn, broker *amqp.Connection, bind string) (*relay, string, error) {
	if _, err := db.Exec(ctx, setup); err != nil {
		return nil, "", fmt.Errorf("creating the tables: %w", err)
	}
	ch, err := broker.Channel()
	if err != nil {
		return nil, "", fmt.Errorf("opening a channel: %w", err)
	}
	r := &relay{db: db, ch: ch, exchange: "example-relay." + uuid.NewString()}
	r.returns = ch.NotifyReturn(make(chan amqp.Return, batch)) // room for a whole batch
	err1 := ch.ExchangeDeclare(r.exchange, "topic", false, true, false, false, nil)
	queue, err2 := ch.QueueDeclare("", false, true, true, false, nil)
	err3 := ch.QueueBind(queue.Name, bind, r.exchange, false, nil)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, "", fmt.Errorf("declaring exchange and queue: %w", err)
	}
	return r, queue.Name, nil
}

// place appends the two events of each of n orders. A service does it in the order's transaction.
func (r *relay) place(ctx context.Context, n int) error {
	_, err := r.db.Exec(ctx, `
		INSERT INTO outbox (order_id, version, event_key, payload)
		SELECT o.id, e.version, e.key, jsonb_build_object('order_id', o.id, 'version', e.version)
		FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $1)) o,
		     (VALUES (1, 'order.created'), (2, 'order.confirmed')) e (version, key)
		ORDER BY o.id, e.version`, n)
	return err
}

// drain passes until nothing more is published.
func (r *relay) drain(ctx context.Context, s step) (published int, _ error) {
	for {
		n, err := s.pass(r, ctx, s.publish(r))
		published += n
		if err != nil || n == 0 {
			return published, err
		}
	}
}

// show places two orders, publishes their events, and prints where they are.
func (r *relay) show(ctx context.Context, s step, queue string) error {
	const orders = 2
	if err := r.place(ctx, orders); err != nil {
		return fmt.Errorf("placing orders: %w", err)
	}
	inTransaction := false
	watched := step{pass: s.pass, publish: func(r *relay) publish {
		return func(ctx context.Context, events []event) ([]uuid.UUID, error) {
			inTransaction = r.db.PgConn().TxStatus() != 'I' // idle
			return s.publish(r)(ctx, events)
		}
	}}
	published, err := r.drain(ctx, watched)
	if err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	var waiting int
	if err := r.db.QueryRow(ctx, "SELECT count(*) FROM outbox").Scan(&waiting); err != nil {
		return fmt.Errorf("counting: %w", err)
	}
	keys, err := r.received(queue)
	if err != nil {
		return fmt.Errorf("reading the queue: %w", err)
	}
	fmt.Println("events placed        ", 2*orders)
	fmt.Println("published            ", published)
	fmt.Println("waiting in the outbox", waiting)
	fmt.Println("in the queue         ", len(keys), strings.Join(keys, " "))
	fmt.Println("lost                 ", 2*orders-waiting-len(keys))
	fmt.Println("in a transaction     ", inTransaction) // while it asked the broker
	return nil
}

// received takes what is in the queue.
func (r *relay) received(queue string) (keys []string, _ error) {
	for {
		m, found, err := r.ch.Get(queue, true)
		if err != nil || !found {
			return keys, err
		}
		keys = append(keys, m.RoutingKey)
	}
}
