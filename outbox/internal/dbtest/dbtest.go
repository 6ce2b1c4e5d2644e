// Package dbtest gives each test a database of its own.
package dbtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Parallel sets how many tests of a package run at the same time, unless go test is told so. They
// wait for the server most of the time, so they may be more than the processors. TestMain calls it.
func Parallel(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}

const (
	defaultURL = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"

	// To drop a database, PostgreSQL waits for a checkpoint. On a busy disk that takes long.
	timeout = time.Minute
)

// URL creates an empty database on the server at TEST_DATABASE_URL, and returns its URL. The
// database is dropped when the test ends, even if there are connections.
func URL(tb testing.TB) string {
	tb.Helper()
	server := cmp.Or(os.Getenv("TEST_DATABASE_URL"), defaultURL)
	name := "test_" + strings.ToLower(rand.Text())
	// No test crashes this server, so no commit has to wait for its disk.
	execute(tb, server, "CREATE DATABASE "+name, "ALTER DATABASE "+name+" SET synchronous_commit = off")
	tb.Cleanup(func() { execute(tb, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("TEST_DATABASE_URL: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

// Pool opens a pool of 16 connections, which is closed when the test ends.
func Pool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	Must(tb, err)
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	Must(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// Migrated returns a pool of a new database with the tables of the outbox. Each has one more column: a
// later version may add one, so the library must name the columns that it reads.
func Migrated(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool := Pool(tb, URL(tb))
	more := regexp.MustCompile(`(?m)^CREATE TABLE (\w+) \($`).ReplaceAllString(Schema(tb), "$0\n  later text,")
	if _, err := pool.Exec(tb.Context(), more, pgx.QueryExecModeSimpleProtocol); err != nil {
		tb.Fatalf("schema.sql: %v", err)
	}
	return pool
}

// Must ends the test with an error, if there is one.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Await asks until the answer is yes.
func Await(tb testing.TB, what string, yes func() bool) {
	tb.Helper()
	for late := time.Now().Add(2 * time.Minute); !yes(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			tb.Fatalf("after two minutes not yet: %s", what)
		}
	}
}

// Schema returns the text of schema.sql.
func Schema(tb testing.TB) string {
	tb.Helper()
	_, here, _, _ := runtime.Caller(0)
	schema, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "..", "schema.sql"))
	Must(tb, err)
	return string(schema)
}

// execute does not use the test's context, which is cancelled before the cleanups run.
func execute(tb testing.TB, server string, statements ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		tb.Fatalf("PostgreSQL at %s: %v; set TEST_DATABASE_URL", server, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			tb.Fatalf("%s: %v", statement, err)
		}
	}
}
