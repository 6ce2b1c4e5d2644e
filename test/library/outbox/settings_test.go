// Package outbox_test tries settings of a role and of a pool that could break the library.
package outbox_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are those of one role, which owns a database, and of its pool.
type settings struct {
	role     []string
	encoding string // of the database; empty: UTF8
	conns    int32
	then     string                                       // a statement of the role, after Migrate
	places   func(*testing.T, *server, database) []string // URLs; nil: the database's own
	says     string                                       // what to change; empty: everything works
}

// TestWhateverTheRoleAndThePoolAreSetTo: Migrate, Append, a relay and an inbox work; or an error,
// or a line of the relay's log, names the cause.
func TestWhateverTheRoleAndThePoolAreSetTo(t *testing.T) {
	t.Parallel()
	s := &server{PostgresServer: servers.Postgres(t)}
	for name, test := range map[string]settings{
		"isolation":      {role: []string{"default_transaction_isolation = serializable", "default_transaction_deferrable = on"}},
		"read-only":      {role: []string{"default_transaction_read_only = on"}},
		"not durable":    {role: []string{"synchronous_commit = off"}},
		"short timeouts": {role: []string{"statement_timeout = 100", "lock_timeout = 100", "idle_in_transaction_session_timeout = 100", "idle_session_timeout = 100"}},
		"formats": {role: []string{
			"datestyle = 'German, DMY'", "intervalstyle = iso_8601", "bytea_output = escape", "timezone = 'Asia/Kathmandu'",
			"extra_float_digits = -15", "standard_conforming_strings = off", "xmlbinary = hex",
		}},
		"plans":          {role: []string{"enable_indexscan = off", "enable_nestloop = off", "plan_cache_mode = force_custom_plan", "jit_above_cost = 0"}},
		"one connection": {conns: 1},
		"row security": {
			then: "ALTER TABLE outbox_events ENABLE ROW LEVEL SECURITY; ALTER TABLE outbox_events FORCE ROW LEVEL SECURITY",
			says: "row security is active on outbox_events",
		},
		"no right":  {then: "REVOKE ALL ON outbox_claims FROM CURRENT_USER", says: "permission denied for table outbox_claims"},
		"standby":   {places: standby, says: "target_session_attrs=read-write"},
		"PgBouncer": {places: pgBouncer},
		"LATIN1":    {encoding: "LATIN1", says: "the encoding of the database is LATIN1"},
		"SQL_ASCII": {encoding: "SQL_ASCII", says: "the encoding of the database is SQL_ASCII"},
		"unicode":   {role: []string{"client_encoding = UNICODE"}},
		"client":    {role: []string{"client_encoding = WIN1252"}, says: "client_encoding is WIN1252"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := s.create(t, test.role, test.encoding)
			pool := open(t, d.URL, test.conns)
			for _, migrate := range []func(context.Context, *pgxpool.Pool) error{outbox.Migrate, inbox.Migrate} {
				if err := migrate(t.Context(), pool); test.encoding == "" {
					check.Must(t, err)
				} else if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("Migrate returned %v", err)
				}
			}
			if test.then != "" {
				check.Exec(t, pool, test.then)
			}
			places := []string{d.URL}
			if test.places != nil {
				places = test.places(t, s, d)
			}
			for _, place := range places {
				wantWork(t, d, open(t, place, test.conns), test.says)
			}
		})
	}
}

type server struct {
	*servers.PostgresServer
	access sync.Mutex // of those who change it
	n      int
}

// database has a role of its own, which is no superuser.
type database struct {
	URL, role string
	admin     *pgxpool.Pool
}

func (s *server) create(t *testing.T, settings []string, encoding string) (d database) {
	t.Helper()
	s.access.Lock()
	defer s.access.Unlock()
	s.n++
	d.role = fmt.Sprint("role", s.n)
	all := open(t, s.URL("postgres"), 1)
	check.Exec(t, all, "CREATE ROLE "+d.role+" LOGIN PASSWORD 'secret'")
	check.Exec(t, all, "CREATE DATABASE "+d.role+" OWNER "+d.role+" TEMPLATE template0 ENCODING '"+cmp.Or(encoding, "UTF8")+"'")
	d.admin = open(t, s.URL(d.role), 1)
	check.Exec(t, d.admin, "ALTER SCHEMA public OWNER TO "+d.role)
	for _, setting := range settings {
		check.Exec(t, d.admin, "ALTER ROLE "+d.role+" SET "+setting)
	}
	u, err := url.Parse(s.URL(d.role))
	check.Must(t, err)
	u.User = url.UserPassword(d.role, "secret")
	d.URL = u.String()
	return d
}

func standby(t *testing.T, s *server, d database) []string {
	t.Helper()
	copied := servers.Standby(t, s.PostgresServer, "standby")
	return []string{strings.Replace(d.URL, fmt.Sprint(s.Port()), fmt.Sprint(copied.Port()), 1)}
}

// pgBouncer is in transaction mode: each transaction may have another session.
func pgBouncer(t *testing.T, s *server, d database) (places []string) {
	t.Helper()
	pooler := servers.PgBouncerFor(t, s.PostgresServer, d.URL, d.role)
	for _, mode := range []string{"cache_describe", "exec", "simple_protocol"} {
		places = append(places, pooler.Via(d.URL)+"&default_query_exec_mode="+mode)
	}
	return places
}

// wantWork requires that what is appended is published and marked, and that a message has its
// effect once; or that somebody says this.
func wantWork(t *testing.T, d database, pool *pgxpool.Pool, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Limit)
	defer cancel()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check.Must(t, err)
	defer func() { _ = log.Close() }()
	said := func() string {
		text, err := os.ReadFile(log.Name())
		check.Must(t, err)
		return string(text)
	}
	published := make(chan publish.Message, 10)
	relay, err := outbox.NewRelay(pool, publish.Func(func(_ context.Context, m publish.Message) error {
		published <- m
		return nil
	}, publish.FuncConfig{OneDestination: true, Calls: 1}), outbox.RelayConfig{Logger: slog.New(slog.NewTextHandler(log, nil)), PollInterval: 50 * time.Millisecond})
	check.Must(t, err)
	runs, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(runs) }()
	if says != "" {
		check.Await(t, "work", func() bool {
			select {
			case err := <-ended:
				ended <- err
				return err != nil && strings.Contains(err.Error(), says)
			default:
				return strings.Contains(said(), says)
			}
		})
		return
	}

	in := inbox.Once(pool, "a", func(ctx context.Context, tx pgx.Tx, m message) error { return appendOne(ctx, tx, string(m)) })
	for range 2 {
		check.Await(t, "work", func() bool { return in.Handle(ctx, []message{"once"}) == nil })
	}
	for _, id := range []string{"1", "2"} {
		check.Await(t, "work", func() bool {
			return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error { return appendOne(ctx, tx, id) }) == nil
		})
	}
	for range 3 {
		check.Receive(t, published, "event")
	}
	check.AwaitTrue(t, d.admin, "SELECT count(*) = 0 FROM outbox_queue")
	stop()
	if err := <-ended; err != nil || len(published) > 0 {
		t.Errorf("the relay ended with %v, %d too many are published", err, len(published))
	}
	check.Exec(t, d.admin, "DELETE FROM processed_messages")
}

type message string

func (m message) MessageID() string { return string(m) }

func appendOne(ctx context.Context, tx pgx.Tx, id string) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Topic: "order.created", Aggregate: "order", AggregateID: id, Version: 1, Payload: []byte(`{"text": "naïve\\"}`),
	})
}

func open(t *testing.T, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	check.Must(t, err)
	if conns > 0 {
		config.MaxConns = conns
	}
	outbox.NeverCancelCommits(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	check.Must(t, err)
	t.Cleanup(pool.Close)
	return pool
}
