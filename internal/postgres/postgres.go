// Package postgres opens the database, runs its migrations, and begins transactions.
//
// A [DB] has no method that writes. [DB.InGorm] begins a transaction for code that uses gorm, which has
// a deadline and is READ COMMITTED. [DB.Pool] is for the library of the outbox.
package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"example.com/transactional-outbox/outbox"
)

// DB is a pool of connections.
type DB struct {
	pool      *pgxpool.Pool
	sql       *sql.DB
	gorm      *gorm.DB
	txTimeout time.Duration
}

// Option changes how a pool works.
type Option func(*options)

type options struct {
	pool      *pgxpool.Config
	txTimeout time.Duration
}

// defaultTxTimeout is how long a transaction may take, including the wait for a connection. It is
// longer than the 10 s after which the server frees the locks of a machine that has vanished. It
// is shorter than the timeouts of the roles.
const defaultTxTimeout = 15 * time.Second

// TxTimeout sets how long a transaction may take. The default is 15 s, so that a caller without
// a deadline does not wait for ever for a server that has vanished.
func TxTimeout(limit time.Duration) Option {
	return func(o *options) { o.txTimeout = limit }
}

// Fresh asks for the URL at each new connection, and takes the user and the password of it. If url
// is nil, they stay as they are.
func Fresh(url func() (string, error)) Option {
	return func(o *options) {
		before := o.pool.BeforeConnect
		o.pool.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
			if url != nil {
				fresh, err := freshConfig(url)
				if err != nil {
					return fmt.Errorf("reading DATABASE_URL again: %w", err)
				}
				c.User, c.Password = fresh.User, fresh.Password
			}
			return before(ctx, c)
		}
	}
}

func freshConfig(url func() (string, error)) (*pgx.ConnConfig, error) {
	fresh, err := url()
	if err != nil {
		return nil, err
	}
	return pgx.ParseConfig(fresh)
}

// Open prepares a pool of at most maxConns connections to the database at url. It does not
// connect. If the database is unavailable at the start, a service waits (see [DB.Wait]) and does
// not fail.
func Open(ctx context.Context, url string, maxConns int32, changes ...Option) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	if mode := config.ConnConfig.DefaultQueryExecMode; mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		// They send arguments as text, without asking for their types, and cannot send our arrays.
		return nil, fmt.Errorf("DATABASE_URL: default_query_exec_mode must not be %s; with PgBouncer use cache_describe", strings.ReplaceAll(mode.String(), " ", "_"))
	}
	// A statement has a span only below a span that records. So polling makes no traces.
	config.ConnConfig.Tracer = otelpgx.NewTracer(
		otelpgx.WithDisableAcquireTracer(),
		// To add these details, it would copy the whole configuration for each span.
		otelpgx.WithDisableConnectionDetailsInAttributes(),
		otelpgx.WithTracerAttributes(
			semconv.ServerAddress(config.ConnConfig.Host),
			semconv.ServerPort(int(config.ConnConfig.Port)),
			semconv.UserName(config.ConnConfig.User),
			semconv.DBNamespace(config.ConnConfig.Database),
		),
	)
	setSessionTimeouts(config.ConnConfig.RuntimeParams)
	setConnectionTimeouts(config.ConnConfig)
	config.PingTimeout = pingTimeout
	config.MaxConns = maxConns
	requireWrites(config.ConnConfig)
	preferLast(config, url)
	outbox.NeverCancelCommits(config)
	var pool *pgxpool.Pool
	leaveReadOnly(config.ConnConfig, func() { pool.Reset() })
	chosen := options{pool: config, txTimeout: defaultTxTimeout}
	for _, change := range changes {
		change(&chosen)
	}

	pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening the database pool: %w", err)
	}
	conn := stdlib.OpenDBFromPool(pool)
	orm, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: conn}), &gorm.Config{
		SkipDefaultTransaction: true, // InGorm is the only place that begins one
		DisableAutomaticPing:   true,
		QueryFields:            true, // with "*", each new column would make InGorm repeat transactions
		TranslateError:         true,
		Logger:                 logger.Discard, // errors are returned, and logged once, at the edge
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening gorm: %w", err)
	}
	return &DB{pool: pool, sql: conn, gorm: orm, txTimeout: chosen.txTimeout}, nil
}

// setSessionTimeouts makes the server end the session of a machine that has vanished. Until then
// its transaction keeps its locks, and nobody can process the message that it worked on. By
// default the server waits for two hours. Parameters in the URL are not changed.
func setSessionTimeouts(parameters map[string]string) {
	for name, value := range map[string]string{
		"idle_in_transaction_session_timeout": "10s", // our transactions wait for nothing but the database
		"tcp_keepalives_idle":                 "10",  // seconds
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "3",
	} {
		if _, given := parameters[name]; !given {
			parameters[name] = value
		}
	}
}

// closeTimeout is how long Close waits for a server that does not answer. The driver would wait
// for 15 s. That is too long for a process that shuts down.
const closeTimeout = 3 * time.Second

// Close waits for running transactions and closes every connection.
func (db *DB) Close() {
	_ = db.sql.Close() // closes only the handle: the connections are the pool's
	closed := make(chan struct{})
	go func() {
		db.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// Pool returns the pool, for the outbox's library.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.pool.Ping(ctx)
}

// Wait returns when the database is ready. Until then it logs the reason, each time that the
// reason changes.
func (db *DB) Wait(ctx context.Context, migrations Migrations) error {
	ready := func(ctx context.Context) error { return db.Ready(ctx, migrations) }
	return db.wait(ctx, ready, func(error) bool { return false })
}

// Ready returns an error unless the database answers and its schema is that of migrations.
func (db *DB) Ready(ctx context.Context, migrations Migrations) error {
	if err := db.Ping(ctx); err != nil {
		return err
	}
	return migrations.applied(ctx, db)
}

// wait calls ready until it succeeds or its error is permanent.
func (db *DB) wait(ctx context.Context, ready func(context.Context) error, permanent func(error) bool) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	logged := ""
	for {
		err := tryOnce(ctx, ready)
		if err == nil || permanent(err) {
			return err
		}
		if reason := err.Error(); reason != logged && ctx.Err() == nil {
			slog.WarnContext(ctx, "waiting for the database", "error", reason)
			logged = reason
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tryOnce limits the time of one try, because the server may vanish during it.
func tryOnce(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return ready(ctx)
}

// StatementTimeout sets how long one statement may take. The server ends the statement then. A
// timeout of the context alone would only end the wait for it.
func StatementTimeout(limit time.Duration) Option {
	return func(o *options) {
		o.pool.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(limit.Milliseconds(), 10)
	}
}
