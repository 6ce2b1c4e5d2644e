// Package check has what most tests need: an error ends the test, and it waits for what is not so yet.
package check

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Limit bounds each wait of a test. No promise rests on it.
const Limit = 2 * time.Minute

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
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(Limit); !yes(); <-tick.C {
		if time.Now().After(late) {
			tb.Fatalf("after %s not yet: %s", Limit, what)
		}
	}
}

// Receive waits for a value.
func Receive[T any](tb testing.TB, values <-chan T, what string) (value T) {
	tb.Helper()
	select {
	case value = <-values:
	case <-time.After(Limit):
		tb.Fatalf("after %s not yet: %s", Limit, what)
	}
	return value
}

// Run runs a command, which must succeed, and returns its standard output.
func Run(tb testing.TB, command *exec.Cmd) string {
	tb.Helper()
	var said strings.Builder
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		tb.Fatalf("%q: %v\n%s%s", command.Args, err, output, said.String())
	}
	return string(output)
}

// Database is a connection or a pool.
type Database interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// Exec executes a statement.
func Exec(tb testing.TB, db Database, sql string, arguments ...any) {
	tb.Helper()
	if _, err := db.Exec(tb.Context(), sql, arguments...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Value returns the one value of a query.
func Value[T any](tb testing.TB, db Database, sql string, arguments ...any) (value T) {
	tb.Helper()
	if err := db.QueryRow(tb.Context(), sql, arguments...).Scan(&value); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return value
}

// AwaitTrue asks a database until the answer is true.
func AwaitTrue(tb testing.TB, db Database, query string, arguments ...any) {
	tb.Helper()
	Await(tb, query, func() bool { return Value[bool](tb, db, query, arguments...) })
}
