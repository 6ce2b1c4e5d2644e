// Command webhook serves the orders of two shops, with database/sql, and sends each event to all
// webhooks of its shop. Each shop has a schema of its own, with its orders and its outbox. It was
// written by somebody who had the library's documentation and no other part of it. The tests in
// test/library/importers kill it under load, and give it fifty webhooks of which half are bad.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

// tableSQL is one transaction, so its lock lasts until its end: IF NOT EXISTS alone fails if two
// instances start at the same time. The checks are what clients must obey.
const tableSQL = `SELECT pg_advisory_xact_lock(7468);
	CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), version int NOT NULL DEFAULT 1,
		idempotency_key text UNIQUE CHECK (length(idempotency_key) < 256),
		product_id text NOT NULL CHECK (product_id <> ''), quantity int NOT NULL CHECK (quantity > 0),
		customer_email text NOT NULL CHECK (customer_email <> ''),
		amount bigint NOT NULL, currency text NOT NULL DEFAULT 'GBP', status text NOT NULL DEFAULT 'pending')`

// answerJSON is what clients see of an order.
const answerJSON = `jsonb_build_object('order', jsonb_build_object('id', id, 'amount', amount, 'currency', currency))`

type shop struct {
	db       *sql.DB
	webhooks map[string]string // the URL of each topic
	relay    *outbox.Relay
}

// openShop makes what the shop needs in the database.
func openShop(ctx context.Context, schema string, webhooks []string) (*shop, error) {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return nil, err
	}
	const workers, requests = 2, 8
	config.MaxConns = workers + 4 + requests // a relay has four more for its other work
	outbox.UseSchema(config, schema)
	outbox.NeverCancelCommits(config) // in case the server has a synchronous standby
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	db.SetMaxOpenConns(requests)                      // so that requests never take the relay's connections
	if err := outbox.Migrate(ctx, pool); err != nil { // it makes the schema, too
		return nil, err
	}
	if _, err := db.ExecContext(ctx, tableSQL); err != nil {
		return nil, err
	}
	// A topic for each webhook: what pauses together has one topic. With the defaults, bad webhooks hold
	// up no other. Ten orders in a second, fifty webhooks: beside 25 that were slow, failed, hung or
	// refused connections, the others got half of their events within 3.7 ms after the answer to the
	// client, and alone within 3.3 ms.
	s := &shop{db: db, webhooks: map[string]string{}}
	for _, webhook := range webhooks {
		name, url, _ := strings.Cut(webhook, "=")
		s.webhooks["order."+name] = url
	}
	send := func(ctx context.Context, m publish.Message) error {
		if s.webhooks[m.Topic] == "" {
			return fmt.Errorf("%w: there is no webhook %s any more", publish.ErrInvalid, m.Topic)
		}
		return post(ctx, s.webhooks[m.Topic], m)
	}
	s.relay, err = outbox.NewRelay(pool, publish.Func(send, publish.FuncConfig{Timeout: 10 * time.Second}), outbox.RelayConfig{
		AppID: "shops", Workers: workers, Logger: slog.With("schema", schema),
		ShutdownTimeout: 12 * time.Second, // longer than a call
		// The longest possible GiveUp, because nobody here replays failed events.
		RetryCap: 30 * time.Second, GiveUp: 365 * 24 * time.Hour,
	})
	return s, err
}

// The client follows no redirect: that could become a GET, which loses the event. To connect has a
// limit of its own, so a host that is silent is unreachable before the time of the call is over.
var client = &http.Client{
	Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConnsPerHost: 4},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post sends a message, and says whether the webhook can have got it.
func post(ctx context.Context, url string, m publish.Message) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.Body))
	if err != nil {
		return err
	}
	req.Header = http.Header{
		"Message-Id": {m.ID}, "Topic": {m.Topic}, "Event": {fmt.Sprint(m.Headers["event"])}, "Content-Type": {m.ContentType},
	}
	resp, err := client.Do(req)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("%w: %w", publish.ErrNotSent, err)
	}
	if err != nil { // the webhook may have got it
		return fmt.Errorf("%w: %w", publish.ErrTimeout, err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return errors.New("the webhook answered " + resp.Status)
	}
	return nil
}

// write runs a statement that inserts or updates an order, and appends an event for each webhook in
// its transaction. The statement locks the row until the commit, which keeps the versions in order.
func (s *shop) write(ctx context.Context, kind, statement string, args ...any) (answer []byte, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	// The message has no version, so the payload has it.
	event := outbox.Event{Headers: map[string]string{"event": kind}}
	statement += " RETURNING id, version, to_jsonb(orders) - 'idempotency_key', " + answerJSON
	row := tx.QueryRowContext(ctx, statement, args...)
	if err := row.Scan(&event.AggregateID, &event.Version, &event.Payload, &answer); err != nil {
		return nil, err
	}
	var events []outbox.Event
	for topic := range s.webhooks { // an order's events wait for each other only at the same webhook
		event.Topic, event.Aggregate = topic, "for "+topic
		events = append(events, event)
	}
	if err := outbox.Append(ctx, outbox.FromSQL(tx), events...); err != nil {
		return nil, err
	}
	err = tx.Commit()
	s.relay.Wake()
	return answer, err
}

// create makes an order, or finds the one that its key has made before.
func (s *shop) create(r *http.Request) ([]byte, error) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)) // a part of a body is no JSON, so it is refused
	answer, err := s.write(r.Context(), "order.created", `
		INSERT INTO orders (idempotency_key, product_id, quantity, customer_email, amount)
		SELECT NULLIF($1, ''), product_id, quantity, customer_email, quantity * 100::bigint
		FROM jsonb_to_record($2::text::jsonb) AS body (product_id text, quantity int, customer_email text)
		ON CONFLICT DO NOTHING`, r.Header.Get("Idempotency-Key"), string(body))
	if errors.Is(err, sql.ErrNoRows) {
		query := "SELECT " + answerJSON + " FROM orders WHERE idempotency_key = $1"
		err = s.db.QueryRowContext(r.Context(), query, r.Header.Get("Idempotency-Key")).Scan(&answer)
	}
	return answer, err
}

// handler answers with what f returns: with bad if it finds no row, or breaks a rule of the table.
func handler(good, bad int, f func(r *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := f(r)
		rule, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case errors.Is(err, sql.ErrNoRows), ok && (rule.Code[:2] == "22" || rule.Code[:2] == "23"):
			http.Error(w, http.StatusText(bad), bad)
		case err != nil:
			slog.ErrorContext(r.Context(), "the database failed", "path", r.URL.Path, "error", err)
			http.Error(w, "the database failed", http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(good)
			_, _ = w.Write(answer)
		}
	}
}

func run() error {
	asked, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	group, ctx := errgroup.WithContext(asked)
	mux := http.NewServeMux()
	var db *sql.DB // any of the two shows whether the database works
	for name, webhooks := range map[string]string{"a": os.Getenv("WEBHOOKS_A"), "b": os.Getenv("WEBHOOKS_B")} {
		s, err := openShop(ctx, "shop_"+name, strings.Fields(webhooks))
		if err != nil {
			return err
		}
		group.Go(func() error { return s.relay.Run(ctx) })
		mux.HandleFunc("POST /"+name+"/orders", handler(http.StatusCreated, http.StatusBadRequest, s.create))
		for action, status := range map[string]string{"confirm": "confirmed", "cancel": "cancelled"} {
			change := func(r *http.Request) ([]byte, error) {
				return s.write(r.Context(), "order."+status, `UPDATE orders SET status = $2, version = version + 1
					WHERE id = $1::text::uuid AND status = 'pending'`, r.PathValue("id"), status)
			}
			mux.HandleFunc("POST /"+name+"/orders/{id}/"+action, handler(http.StatusOK, http.StatusConflict, change))
		}
		db = s.db
	}
	mux.HandleFunc("GET /ready", handler(http.StatusOK, http.StatusServiceUnavailable,
		func(r *http.Request) ([]byte, error) { return []byte("{}"), db.PingContext(r.Context()) }))
	// A database that is silent has failed: this answers with 503, and ends the request's context.
	server := &http.Server{
		Addr: os.Getenv("ADDR"), ReadTimeout: 5 * time.Second,
		Handler: http.TimeoutHandler(mux, 5*time.Second, "the database is silent"),
	}
	group.Go(server.ListenAndServe)
	group.Go(func() error { <-ctx.Done(); return server.Shutdown(context.WithoutCancel(ctx)) })
	if err := group.Wait(); asked.Err() == nil { // the relays have finished what they were sending
		return err
	}
	return nil // an error after the signal is its consequence
}

func main() {
	if err := run(); err != nil {
		slog.Error("webhook cannot go on", "error", err)
		os.Exit(1)
	}
}
