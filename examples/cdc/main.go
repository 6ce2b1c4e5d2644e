// Command cdc is an outbox that is read from PostgreSQL's log (change data capture), in one file.
//
//	cdc order    place an order; it has two events: created and confirmed
//	cdc relay    read the events from the log, and publish them to RabbitMQ
//
// What it promises, also when it is killed: an order and its event are committed together, or
// neither is. The log is acknowledged only after the broker has confirmed that a queue has the
// event. So each event is published at least once, in the order of the commits.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	usage       = "usage: cdc order | relay, with DATABASE_URL and AMQP_URL set"
	exchange    = "cdc.orders"
	slot        = "cdc_outbox"
	publication = "cdc_outbox"
	pause       = time.Second      // before the next try
	ackEvery    = time.Second      // a kill repeats the events of that time
	silence     = 30 * time.Second // then the connection to PostgreSQL is lost
)

// setup prepares a connection. Nobody updates the rows of the outbox. They stay for the day when
// the slot is lost. Delete old ones as you like: the publication has INSERTs only.
const setup = `
SET search_path = cdc;
SELECT pg_advisory_xact_lock(hashtext('cdc')); -- one process at a time creates the tables
CREATE SCHEMA IF NOT EXISTS cdc;
CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, version int NOT NULL DEFAULT 1, status text NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
  id uuid PRIMARY KEY, -- the message id, the same in every repeat
  topic text NOT NULL CHECK (octet_length(topic) <= 255), -- RabbitMQ's limit
  aggregate_id uuid NOT NULL, payload jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now());
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = '` + publication + `') THEN
    CREATE PUBLICATION ` + publication + ` FOR TABLE outbox WITH (publish = 'insert');
  END IF;
END $$`

// setupSlot is a transaction of its own: one that has written cannot create a slot. It comes after
// the publication and before the first event. What is older than the slot is never read.
const setupSlot = `
SELECT pg_advisory_xact_lock(hashtext('cdc'));
SELECT pg_create_logical_replication_slot('` + slot + `', 'pgoutput')
WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '` + slot + `')`

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, append(os.Args[1:], ""))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cdc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if args[0] != "order" && args[0] != "relay" {
		return errors.New(usage)
	}
	db, err := connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	if args[0] == "order" {
		return placeOrder(ctx, db)
	}
	for ctx.Err() == nil {
		if err := session(ctx, db.Config().Config); ctx.Err() == nil {
			slog.Warn("trying again", "error", err)
			sleep(ctx, pause)
		}
	}
	return nil
}

func connect(ctx context.Context) (*pgx.Conn, error) {
	db, err := pgx.Connect(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "not set"))
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	_, err = db.Exec(ctx, setup)
	if err == nil {
		_, err = db.Exec(ctx, setupSlot)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the tables and the slot: %w", errors.Join(err, db.Close(ctx)))
	}
	return db, nil
}

func placeOrder(ctx context.Context, db *pgx.Conn) error {
	id := uuid.New()
	for _, status := range []string{"created", "confirmed"} {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return changeOrder(ctx, tx, id, status) })
		if err != nil {
			return err
		}
		slog.Info("committed", "order", id, "status", status)
	}
	return nil
}

// changeOrder writes the order and its event in one transaction. It locks the order's row until the
// commit, so that an order's versions are committed one by one.
func changeOrder(ctx context.Context, tx pgx.Tx, id uuid.UUID, status string) error {
	var version int
	err := tx.QueryRow(ctx, `INSERT INTO orders (id, status) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status, version = orders.version + 1
		RETURNING version`, id, status).Scan(&version)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO outbox (id, topic, aggregate_id, payload) VALUES ($1, $2, $3, $4)`,
		uuid.New(), "order."+status, id, map[string]any{"order_id": id, "version": version, "status": status})
	return err
}

// session publishes until one of its two connections is lost.
func session(ctx context.Context, config pgconn.Config) error {
	broker, err := amqp.DialConfig(os.Getenv("AMQP_URL"), amqp.Config{Dial: amqp.DefaultDial(10 * time.Second)})
	if err != nil {
		return fmt.Errorf("AMQP_URL: %w", err)
	}
	closeBroker := func() { _ = broker.CloseDeadline(time.Now().Add(time.Second)) }
	defer closeBroker()
	defer context.AfterFunc(ctx, closeBroker)() // also if the broker reads nothing, and a publish hangs
	ch, err := broker.Channel()
	if err == nil {
		err = cmp.Or(ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil), ch.Confirm(false))
	}
	if err != nil {
		return fmt.Errorf("declaring %s: %w", exchange, err)
	}
	config.RuntimeParams["replication"] = "database"
	stream, err := pgconn.ConnectConfig(ctx, &config)
	if err != nil {
		return fmt.Errorf("connecting for replication: %w", err)
	}
	defer func() { _ = stream.Close(context.WithoutCancel(ctx)) }()
	// Position 0: it begins where the slot was acknowledged.
	err = pglogrepl.StartReplication(ctx, stream, slot, 0, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names '" + publication + "'"},
	})
	if err != nil {
		return fmt.Errorf("starting replication: %w", err)
	}
	r := reader{stream: stream, ch: ch, returns: ch.NotifyReturn(make(chan amqp.Return, 1))}
	ctx, end := context.WithCancel(ctx)
	var acknowledging sync.WaitGroup
	acknowledging.Go(func() { defer end(); err = r.acknowledge(ctx) })
	err2 := r.read(ctx)
	end()
	acknowledging.Wait()
	return errors.Join(err, err2)
}

type reader struct {
	stream  *pgconn.PgConn
	ch      *amqp.Channel
	returns <-chan amqp.Return
	done    atomic.Uint64 // the position in the log before which all is published
}

// acknowledge tells PostgreSQL what it need not keep, and that the relay lives, also while a
// publish waits: after wal_sender_timeout without a sign, PostgreSQL would close the connection.
func (r *reader) acknowledge(ctx context.Context) error {
	for {
		sleep(ctx, ackEvery)
		status := pglogrepl.StandbyStatusUpdate{WALWritePosition: pglogrepl.LSN(r.done.Load()), ReplyRequested: true}
		err := pglogrepl.SendStandbyStatusUpdate(ctx, r.stream, status)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func (r *reader) read(ctx context.Context) error {
	inTransaction := false
	for {
		patient, cancel := context.WithTimeout(ctx, silence) // PostgreSQL answers each status
		received, err := r.stream.ReceiveMessage(patient)
		cancel()
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		data, ok := received.(*pgproto3.CopyData)
		if !ok {
			return fmt.Errorf("PostgreSQL has ended the stream: %+v", received)
		}
		message, err := decode(data.Data)
		switch m := message.(type) {
		case pglogrepl.PrimaryKeepaliveMessage:
			if !inTransaction { // PostgreSQL need not keep what others have written since the last event
				r.done.Store(max(r.done.Load(), uint64(m.ServerWALEnd)))
			}
		case *pglogrepl.BeginMessage:
			inTransaction = true
		case *pglogrepl.InsertMessage:
			err = r.publish(ctx, m.Tuple.Columns)
		case *pglogrepl.CommitMessage: // which is sent when everything of the transaction is
			inTransaction = false
			r.done.Store(uint64(m.TransactionEndLSN))
		}
		if err != nil {
			return err
		}
	}
}

func decode(data []byte) (any, error) {
	if data[0] == pglogrepl.PrimaryKeepaliveMessageByteID {
		return pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
	}
	x, err := pglogrepl.ParseXLogData(data[1:])
	if err != nil {
		return nil, err
	}
	return pglogrepl.Parse(x.WALData)
}

// publish returns when the broker has confirmed that a queue has the event. Until then all later
// ones wait: a position in the log cannot leave one out.
func (r *reader) publish(ctx context.Context, columns []*pglogrepl.TupleDataColumn) error {
	id, topic := string(columns[0].Data), string(columns[1].Data) // in the order of CREATE TABLE
	m := amqp.Publishing{
		MessageId: id, DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: columns[3].Data,
		Headers: amqp.Table{"aggregate_id": string(columns[2].Data)},
	}
	for {
		const mandatory = true // the broker returns a message that no queue is bound for
		confirm, err := r.ch.PublishWithDeferredConfirm(exchange, topic, mandatory, false, m)
		if err != nil {
			return err
		}
		acked, err := confirm.WaitContext(ctx)
		if err != nil || !acked && r.ch.IsClosed() { // a closed channel answers as a nack does
			return fmt.Errorf("no confirm: %w", cmp.Or[error](err, amqp.ErrClosed))
		}
		if len(r.returns) == 0 && acked { // the broker sends a return before its confirm
			slog.Info("published", "topic", topic, "message", id)
			return nil
		}
		for len(r.returns) > 0 {
			<-r.returns
		}
		slog.Warn("no queue took it, so all later events wait", "topic", topic, "message", id)
		sleep(ctx, pause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
