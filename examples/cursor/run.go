package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const usage = `cursor reads an outbox with two cursors, while writers add to it, and counts what each has missed.

It makes a schema of its own in the database at DATABASE_URL, and drops it at the end. First, one
transaction commits after a later event has been read. Then many writers change orders, and add an
event for each change. Of 20 transactions, two roll back and one waits before its COMMIT.

`

// run returns the exit code.
func run(args []string) int {
	flags := flag.NewFlagSet("cursor", flag.ContinueOnError)
	writers := flags.Int("writers", 8, "writers at the same time")
	transactions := flags.Int("transactions", 100, "transactions of each writer")
	page := flags.Int("page", 50, "events that a cursor reads at once")
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || min(*writers, *transactions, *page) < 1:
		fmt.Fprintln(os.Stderr, "cursor: each flag needs a number above 0, and there are no other arguments: see -help")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := demo(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "not set"), *writers, *transactions, *page)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cursor:", err)
		return 1
	}
	return 0
}

// demo lets the cursors race in a schema of its own.
func demo(ctx context.Context, url string, writers, transactions, page int) (err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	schema := "cursor_" + strings.ToLower(rand.Text()[:8])
	config.RuntimeParams["search_path"] = schema
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, drop(ctx, db, schema)) }()
	if _, err := db.Exec(ctx, "CREATE SCHEMA "+schema+"; "+tables); err != nil {
		return fmt.Errorf("creating the tables: %w", err)
	}
	r, err := newRace(ctx, config, page)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	if err := r.loseOne(ctx); err != nil {
		return fmt.Errorf("losing one event: %w", err)
	}
	if err := r.run(ctx, writers, transactions); err != nil {
		return err
	}
	return r.report(ctx)
}

// drop needs a new connection after Ctrl-C, which has closed the old one.
func drop(ctx context.Context, old *pgx.Conn, schema string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_ = old.Close(ctx)
	db, err := pgx.ConnectConfig(ctx, old.Config())
	if err == nil {
		defer func() { _ = db.Close(ctx) }()
		_, err = db.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	}
	if err != nil {
		return fmt.Errorf("dropping the schema %s: %w", schema, err)
	}
	return nil
}
