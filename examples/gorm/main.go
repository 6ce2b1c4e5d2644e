// Command gorm serves the orders of two shops, with gorm and RabbitMQ. Each shop has a schema of its
// own, with its orders and its outbox, and an exchange of its own, from which it also receives its
// events. It was written by somebody who had the library's documentation and no other part of it.
// The tests in test/library/importers kill it under load.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// tablesSQL is one text without parameters, so it is one transaction, and the lock holds until its
// end. IF NOT EXISTS alone fails if two instances start at the same time.
const tablesSQL = `SELECT pg_advisory_xact_lock(7467);
CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, idempotency_key text NOT NULL UNIQUE,
	product_id text NOT NULL, quantity int NOT NULL, customer_email text NOT NULL, amount int NOT NULL,
	currency text NOT NULL, status text NOT NULL, version int NOT NULL);
CREATE TABLE IF NOT EXISTS received (message_id text NOT NULL, topic text NOT NULL, order_id text NOT NULL)`

// An order is a row of orders, and the payload of its events: a message has no aggregate and no version.
type order struct {
	ID             uuid.UUID `json:"id"`
	IdempotencyKey string    `json:"-"`
	ProductID      string    `json:"product_id"`
	Quantity       int       `json:"quantity"`
	CustomerEmail  string    `json:"customer_email"`
	Amount         int       `json:"amount"` // in pence
	Currency       string    `json:"currency"`
	Status         string    `json:"status"`
	Version        int       `json:"version"`
}

type shop struct {
	db    *gorm.DB
	relay *outbox.Relay
}

// start makes what a shop needs, runs its relay and its consumer in group, and adds its handlers to mux.
func start(ctx context.Context, group *errgroup.Group, mux *http.ServeMux, name string) error {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	// A relay needs one connection for its worker and four more. An inbox needs one for a batch, and
	// one to clean up. Requests have a pool of their own, so that they cannot use these up.
	config.MaxConns = 7
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed" // for save
	outbox.UseSchema(config, "shop_"+name)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	requests, err2 := pgxpool.NewWithConfig(ctx, config.Copy())
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if err := errors.Join(outbox.Migrate(ctx, pool), inbox.Migrate(ctx, pool)); err != nil { // they make the schema
		return err
	}
	_, err = pool.Exec(ctx, tablesSQL)
	db, err2 := gorm.Open(postgres.New(postgres.Config{Conn: stdlib.OpenDBFromPool(requests)}),
		&gorm.Config{Logger: logger.Discard, PrepareStmt: true}) // save logs what fails
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	url, exchange, log := os.Getenv("AMQP_URL"), os.Getenv("EXCHANGE_PREFIX")+name, slog.With("shop", name)
	queue := rabbitmq.Queue{
		Name: exchange + ".received", Exchange: exchange, Logger: log,
		Topics: []string{"order.created", "order.confirmed", "order.cancelled"},
	}
	consumer, err := rabbitmq.NewConsumer(url, queue, inbox.Once(pool, "received", receive, inbox.Logger(log)))
	// The relay also declares the consumer's queue. Otherwise an event that it sends before the
	// consumer has begun might reach only the queues of others, and would count as delivered.
	broker, topology := rabbitmq.NewBroker(url, exchange), queue.Topology()
	topology.Exchanges = append(topology.Exchanges, rabbitmq.Exchange{Name: exchange, Kind: "topic"})
	broker.Topology, broker.Logger = topology, log
	relay, err2 := outbox.NewRelay(pool, broker, outbox.RelayConfig{AppID: "shop-" + name, Workers: 1, Logger: log})
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	group.Go(func() error { return relay.Run(ctx) })
	group.Go(func() error { return consumer.Run(ctx) })
	s := &shop{db, relay}
	mux.HandleFunc("POST /"+name+"/orders", s.create)
	mux.HandleFunc("POST /"+name+"/orders/{id}/confirm", func(w http.ResponseWriter, r *http.Request) { s.change(w, r, "confirmed") })
	mux.HandleFunc("POST /"+name+"/orders/{id}/cancel", func(w http.ResponseWriter, r *http.Request) { s.change(w, r, "cancelled") })
	return nil
}

// receive writes the effect of one message, in the transaction that records its id.
func receive(ctx context.Context, tx pgx.Tx, m rabbitmq.Message) error {
	var o order
	if err := json.Unmarshal(m.Body, &o); err != nil {
		return fmt.Errorf("%w: %w", rabbitmq.ErrPermanent, err)
	}
	_, err := tx.Exec(ctx, "INSERT INTO received VALUES ($1, $2, $3)", m.ID, m.RoutingKey, o.ID.String())
	return err
}

// save runs write in a transaction, appends an event with the order that write has left in o, unless the
// topic is "", and answers. What waits for a lock must then see what was committed meanwhile.
func (s *shop) save(w http.ResponseWriter, r *http.Request, status int, o *order, write func(tx *gorm.DB) (topic string, err error)) {
	err := s.db.WithContext(r.Context()).Transaction(func(tx *gorm.DB) error { //nolint:contextcheck // it is r's
		topic, err := write(tx)
		if err != nil || topic == "" {
			return err
		}
		payload, _ := json.Marshal(o) // an order has nothing that cannot be JSON
		return outbox.Append(r.Context(), outbox.FromGorm(tx.Statement.ConnPool), outbox.Event{
			Topic: topic, Payload: payload, Aggregate: "order", AggregateID: o.ID.String(), Version: o.Version,
		})
	})
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		http.Error(w, "no such pending order", http.StatusConflict)
	case err != nil:
		slog.Error("request failed", "path", r.URL.Path, "err", err)
		http.Error(w, "the database failed", http.StatusServiceUnavailable)
	default:
		s.relay.Wake()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"order":{"id":%q,"amount":%d,"currency":%q}}`, o.ID, o.Amount, o.Currency)
	}
}

func (s *shop) create(w http.ResponseWriter, r *http.Request) {
	var o order
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&o)
	key := cmp.Or(r.Header.Get("Idempotency-Key"), uuid.NewString()) // without a key, each request has its own
	if err != nil || o.ProductID == "" || o.CustomerEmail == "" || o.Quantity < 1 || o.Quantity > 1e6 || len(key) > 255 ||
		strings.ToValidUTF8(key, "") != key || strings.Contains(o.ProductID+o.CustomerEmail, "\x00") { // PostgreSQL takes no NUL
		http.Error(w, "not an order", http.StatusBadRequest)
		return
	}
	o.ID, o.IdempotencyKey, o.Amount, o.Currency, o.Status, o.Version = uuid.New(), key, 100*o.Quantity, "GBP", "pending", 1
	s.save(w, r, http.StatusCreated, &o, func(tx *gorm.DB) (string, error) {
		// If another transaction is inserting the same key, Create waits for its end.
		created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&o)
		if created.Error != nil || created.RowsAffected == 1 {
			return "order.created", created.Error
		}
		o = order{} // or First would look for its id, too
		return "", tx.First(&o, "idempotency_key = ?", key).Error
	})
}

// change gives a pending order another status.
func (s *shop) change(w http.ResponseWriter, r *http.Request, status string) {
	var o order
	s.save(w, r, http.StatusOK, &o, func(tx *gorm.DB) (string, error) {
		id, err := uuid.Parse(r.PathValue("id"))
		if err != nil {
			return "", gorm.ErrRecordNotFound
		}
		// The lock lasts until the commit, so events enter the outbox in the order of the versions.
		if err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&o, "id = ? AND status = 'pending'", id).Error; err != nil {
			return "", err
		}
		o.Status, o.Version = status, o.Version+1
		return "order." + status, tx.Select("Status", "Version").Updates(&o).Error
	})
}

func run() error {
	asked, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	group, ctx := errgroup.WithContext(asked)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	if err := errors.Join(start(ctx, group, mux, "a"), start(ctx, group, mux, "b")); err != nil {
		return err
	}
	// The handler's timeout ends the context of a request, and answers 503. Both bound Shutdown.
	server := &http.Server{
		Addr: os.Getenv("ADDR"), ReadTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		Handler: http.TimeoutHandler(mux, 5*time.Second, "the database is slow"),
	}
	group.Go(server.ListenAndServe)
	group.Go(func() error { <-ctx.Done(); return server.Shutdown(context.WithoutCancel(ctx)) })
	if err := group.Wait(); asked.Err() == nil {
		return err
	}
	return nil // an error after the signal is its consequence
}

func main() {
	if err := run(); err != nil {
		slog.Error("stopped", "err", err)
		os.Exit(1)
	}
}
