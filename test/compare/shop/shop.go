// Package shop has what all designs of test/compare share, so that a design shows only what is its
// own: the orders, the HTTP API, the messages, and the connections.
package shop

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/suite"
)

// Shop is the environment of a design.
type Shop struct {
	DB      *pgxpool.Pool
	AMQPURL string
	Mail    string // the address of the mail server
	Name    string // of this replica
}

// Program is one process of a design: its order side, or its consumer side. It ends with ctx.
type Program func(ctx context.Context, s *Shop) error

// Main runs the program that the first argument names, until SIGTERM. It reads DATABASE_URL,
// AMQP_URL, SMTP_ADDR and NAME.
func Main(programs map[string]Program) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err == nil {
		s := &Shop{DB: db, AMQPURL: os.Getenv("AMQP_URL"), Mail: os.Getenv("SMTP_ADDR"), Name: os.Getenv("NAME")}
		err = programs[os.Args[1]](ctx, s)
	}
	if err != nil && ctx.Err() == nil {
		slog.Error("ended", "error", err)
		os.Exit(1) //nolint:gocritic // the process exits: stop() is not needed
	}
}

// Event says that an order has changed.
type Event struct {
	ID      string `json:"-"` // the message id
	Key     string `json:"-"` // the routing key
	OrderID string `json:"order_id"`
	Version int    `json:"order_version"`
	Email   string `json:"customer_email"`
}

// Schema has the tables of all designs. A design uses some of the columns of outbox.
const Schema = `
CREATE TABLE orders (id uuid PRIMARY KEY, customer_email text NOT NULL UNIQUE, version int NOT NULL);
CREATE TABLE outbox (
  seq             bigint GENERATED ALWAYS AS IDENTITY,
  id              uuid PRIMARY KEY,
  event_key       text NOT NULL,
  order_id        uuid NOT NULL,
  version         int  NOT NULL,
  customer_email  text NOT NULL,
  status          text NOT NULL DEFAULT 'pending', -- pending | processing | published | failed
  attempts        int  NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  locked_at       timestamptz,
  locked_by       text
);
CREATE INDEX ON outbox (seq);
CREATE TABLE outbox_cursor (seq bigint NOT NULL);
INSERT INTO outbox_cursor VALUES (0);
CREATE TABLE inbox (message_id uuid PRIMARY KEY);
CREATE TABLE effects (
  id         bigint GENERATED ALWAYS AS IDENTITY,
  message_id uuid NOT NULL,
  order_id   uuid NOT NULL,
  version    int  NOT NULL,
  mailed     bool NOT NULL DEFAULT false
)`

// Execer is a pool or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Store writes the changed order.
func Store(ctx context.Context, db Execer, e Event) error {
	sql := "INSERT INTO orders (id, customer_email, version) VALUES ($1, $2, $3)"
	if e.Version > 1 {
		sql = "UPDATE orders SET version = $3 WHERE id = $1 AND customer_email = $2"
	}
	_, err := db.Exec(ctx, sql, e.OrderID, e.Email, e.Version)
	return err
}

// StoreWithOutbox writes the changed order and its event, in one transaction.
func (s *Shop) StoreWithOutbox(ctx context.Context, e Event) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := Store(ctx, tx, e); err != nil {
			return err
		}
		return Append(ctx, tx, e)
	})
}

// Append writes an event to the outbox.
func Append(ctx context.Context, tx pgx.Tx, e Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO outbox (id, event_key, order_id, version, customer_email)
		VALUES ($1, $2, $3, $4, $5)`, e.ID, e.Key, e.OrderID, e.Version, e.Email)
	return err
}

// Columns are the columns of the outbox that Scan reads.
const Columns = "id::text, event_key, order_id::text, version, customer_email"

// Scan reads a row with Columns.
func Scan(row pgx.CollectableRow) (e Event, err error) {
	return e, row.Scan(&e.ID, &e.Key, &e.OrderID, &e.Version, &e.Email)
}

// Every calls do repeatedly, with a pause, until ctx ends. It logs errors.
func Every(ctx context.Context, pause time.Duration, do func(context.Context) error) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil {
			slog.ErrorContext(ctx, "trying again", "error", err)
		}
		_ = suite.Sleep(ctx, pause)
	}
}
