// Command minimal is the whole pattern in one file: outbox, relay, inbox. Copy it and change it.
//
//	minimal order N    place N orders; each has three events: created, paid, shipped
//	minimal relay      publish the events
//	minimal consume    write one notification for each event
//
// What it promises, also when its processes are killed: an order and its event are committed
// together, or neither is. An event leaves the outbox only after the broker has confirmed that a
// queue has it. The events of one order are published in the order of their versions. A message
// has one effect in the consumer's database, however often it is delivered.
//
// A process that loses the database or the broker ends with an error. A supervisor, such as systemd
// or Kubernetes, starts it again. Several relays and several consumers may run.
//
// docs/copy-it.md says what the library adds to this file, and how to take the library instead.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	usage       = "usage: minimal order N | relay | consume, with DATABASE_URL and AMQP_URL set"
	exchange    = "minimal.orders"
	queue       = "minimal.notifications"
	deadLetters = "minimal.notifications.dead"
	batch       = 100                    // events of one pass of the relay, at most
	poll        = 200 * time.Millisecond // between two looks at an empty outbox
	timeout     = 10 * time.Second       // for one pass of the relay, and for one message
)

// setup prepares a connection. The last two tables are the consumer's: as a service of its own, it
// has a database of its own. The timeout ends the transaction of a relay that hangs.
const setup = `
SET search_path = minimal;
SET idle_in_transaction_session_timeout = '30s';
SELECT pg_advisory_xact_lock(hashtext('minimal')); -- one process at a time creates the tables
CREATE SCHEMA IF NOT EXISTS minimal;
CREATE TABLE IF NOT EXISTS orders (
  id uuid PRIMARY KEY, status text NOT NULL, version int NOT NULL DEFAULT 1);
CREATE TABLE IF NOT EXISTS outbox (
  id uuid PRIMARY KEY, -- the message id, the same in every repeat
  order_id uuid NOT NULL, version int NOT NULL, UNIQUE (order_id, version),
  event_key text NOT NULL, payload jsonb NOT NULL, -- the routing key and the body
  available_at timestamptz NOT NULL DEFAULT now()); -- not published before
CREATE INDEX IF NOT EXISTS outbox_available_at ON outbox (available_at);
CREATE TABLE IF NOT EXISTS processed_messages ( -- the inbox
  message_id uuid PRIMARY KEY, processed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS notifications ( -- the effect
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id uuid NOT NULL, version int NOT NULL, status text NOT NULL)`

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, append(os.Args[1:], "", ""))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "minimal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	n, _ := strconv.Atoi(args[1])
	command := args[0]
	if command == "help" {
		fmt.Println(usage)
		return nil
	} else if command != "relay" && command != "consume" && (command != "order" || n < 1) {
		return errors.New(usage)
	}
	db, err := pgx.Connect(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "not set"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	if _, err := db.Exec(ctx, setup); err != nil {
		return fmt.Errorf("creating the tables: %w", err)
	}
	if command == "order" {
		return placeOrders(ctx, db, n)
	}
	broker, err := amqp.DialConfig(os.Getenv("AMQP_URL"), amqp.Config{Dial: amqp.DefaultDial(timeout)})
	if err != nil {
		return fmt.Errorf("AMQP_URL: %w", err)
	}
	defer func() { _ = broker.CloseDeadline(time.Now().Add(time.Second)) }()
	ch, err := broker.Channel()
	if err == nil {
		err = ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)
	}
	if err != nil {
		return fmt.Errorf("declaring %s: %w", exchange, err)
	}
	if command == "relay" {
		return relay(ctx, db, ch)
	}
	return consume(ctx, db, ch)
}

type event struct {
	OrderID uuid.UUID `json:"order_id"`
	Version int       `json:"version"`
	Status  string    `json:"status"`
}

func placeOrders(ctx context.Context, db *pgx.Conn, n int) error {
	for range n {
		e := event{OrderID: uuid.New()}
		for _, e.Status = range []string{"created", "paid", "shipped"} {
			err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return changeOrder(ctx, tx, e) })
			if err != nil {
				return fmt.Errorf("order %s: %w", e.OrderID, err)
			}
		}
		slog.Info("placed", "order", e.OrderID)
	}
	return nil
}

// changeOrder writes the order and its event in one transaction. It locks the order's row until
// the commit: an order's versions are committed one by one, and no relay sees 2 before 1.
func changeOrder(ctx context.Context, tx pgx.Tx, e event) error {
	err := tx.QueryRow(ctx, `INSERT INTO orders (id, status) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status, version = orders.version + 1
		RETURNING version`, e.OrderID, e.Status).Scan(&e.Version)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO outbox (id, order_id, version, event_key, payload)
		VALUES ($1, $2, $3, $4, $5)`, uuid.New(), e.OrderID, e.Version, "order."+e.Status, e)
	return err
}

// relay claims events, publishes them, waits for the confirms, and deletes what was confirmed.
func relay(ctx context.Context, db *pgx.Conn, ch *amqp.Channel) error {
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("asking for confirms: %w", err)
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, batch)) // room for a whole batch
	for ctx.Err() == nil {
		// A signal does not interrupt a pass: its events would be published again.
		n, err := pass(context.WithoutCancel(ctx), db, ch, returns)
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		if n == 0 {
			time.Sleep(poll)
		}
	}
	return nil
}

type row struct {
	ID      uuid.UUID
	Key     string
	Payload []byte
}

// claimSQL takes the oldest event of each order, if it is due. The row locks are the claim: other
// relays skip these rows, and later events of these orders wait. It ends with the transaction.
const claimSQL = `
SELECT id, event_key, payload FROM outbox o
WHERE available_at <= now() AND NOT EXISTS (
  SELECT FROM outbox older WHERE older.order_id = o.order_id AND older.version < o.version)
ORDER BY available_at LIMIT $1 FOR UPDATE SKIP LOCKED`

// settleSQL puts off what was not published, so that it does not fill the next batches.
const settleSQL = `
WITH published AS (DELETE FROM outbox WHERE id = ANY ($1))
UPDATE outbox SET available_at = clock_timestamp() + interval '5 seconds' WHERE id = ANY ($2)`

// pass publishes a batch and returns its size. Its transaction is open until all confirms are
// there: short code, no leases. Meanwhile VACUUM cannot remove what any transaction deletes.
func pass(ctx context.Context, db *pgx.Conn, ch *amqp.Channel, returns <-chan amqp.Return) (n int, _ error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		claim, _ := tx.Query(ctx, claimSQL, batch) // CollectRows returns the error
		rows, err := pgx.CollectRows(claim, pgx.RowToStructByPos[row])
		if n = len(rows); err != nil || n == 0 {
			return err
		}
		published, kept, err := publish(ctx, ch, returns, rows)
		if err == nil { // else nobody knows what the broker has: all events stay
			_, err = tx.Exec(ctx, settleSQL, published, kept)
		}
		return err
	})
	return n, err
}

func publish(ctx context.Context, ch *amqp.Channel, returns <-chan amqp.Return, rows []row) (published, kept []uuid.UUID, err error) {
	confirms := make([]*amqp.DeferredConfirmation, len(rows))
	for i, r := range rows {
		m := amqp.Publishing{MessageId: r.ID.String(), DeliveryMode: amqp.Persistent, Body: r.Payload}
		const mandatory = true // the broker returns a message that no queue is bound for
		confirms[i], err = ch.PublishWithDeferredConfirm(exchange, r.Key, mandatory, false, m)
		if err != nil {
			return nil, nil, err
		}
	}
	returned := map[string]bool{}
	for i, r := range rows {
		acked, err := confirms[i].WaitContext(ctx)
		if err != nil || !acked && ch.IsClosed() { // a closed channel answers as a nack does
			return nil, nil, fmt.Errorf("no confirm: %w", cmp.Or[error](err, amqp.ErrClosed))
		}
		for len(returns) > 0 { // the broker sends a return before its confirm
			returned[(<-returns).MessageId] = true
		}
		if acked && !returned[r.ID.String()] {
			slog.Info("published", "key", r.Key, "message", r.ID)
			published = append(published, r.ID)
		} else {
			slog.Warn("kept: no queue took it", "key", r.Key, "message", r.ID)
			kept = append(kept, r.ID)
		}
	}
	return published, kept, nil
}

// consume declares a queue that gives its messages to one consumer at a time, in order. What is
// rejected, or has ended its consumer 50 times, becomes a dead letter. A prefetch of 1: a message
// that ends its consumer takes no other along.
func consume(ctx context.Context, db *pgx.Conn, ch *amqp.Channel) error {
	_, err1 := ch.QueueDeclare(deadLetters, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	_, err2 := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-single-active-consumer": true, "x-delivery-limit": 50,
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": deadLetters,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	err3 := ch.QueueBind(queue, "order.*", exchange, false, nil)
	err4 := ch.Qos(1, 0, false)
	deliveries, err5 := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	for d := range deliveries {
		if err := handle(context.WithoutCancel(ctx), db, d); err != nil {
			return fmt.Errorf("message %s: %w", d.MessageId, err) // no ack: it comes again
		}
	}
	if ctx.Err() == nil {
		return errors.New("RabbitMQ has ended the deliveries")
	}
	return nil
}

// handle records the message id and the effect in one transaction, and then acknowledges.
func handle(ctx context.Context, db *pgx.Conn, d amqp.Delivery) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var e event
	id, err := uuid.Parse(d.MessageId)
	if err = cmp.Or(err, json.Unmarshal(d.Body, &e)); err != nil {
		slog.Error("dead letter", "message", d.MessageId, "error", err)
		return d.Reject(false)
	}
	first := false
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		inbox, err := tx.Exec(ctx, `INSERT INTO processed_messages (message_id) VALUES ($1)
			ON CONFLICT DO NOTHING`, id)
		if first = inbox.RowsAffected() == 1; err != nil || !first {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO notifications (order_id, version, status)
			VALUES ($1, $2, $3)`, e.OrderID, e.Version, e.Status)
		return err
	})
	if err == nil {
		slog.Info("handled", "order", e.OrderID, "version", e.Version, "first", first)
		err = d.Ack(false)
	}
	return err
}
