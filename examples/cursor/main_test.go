package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	childPage    = "CURSOR_TEST_PAGE"
	childTimeout = "CURSOR_TEST_TIMEOUT"
)

// TestMain is also the reader that tests kill: a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv(childPage) == "" {
		os.Exit(m.Run())
	}
	if err := readAsChild(context.Background()); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// readAsChild prints each page, and then waits for a line: at that point the page is published
// and the position is not stored. When nothing is left, it prints an empty line, and waits, too.
func readAsChild(ctx context.Context) error {
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(ctx) }()
	answers := bufio.NewReader(os.Stdin)
	r := &bySnapshot{db: db, publish: func(_ context.Context, events []event) error {
		fmt.Println(seqsOf(events))
		_, err := answers.ReadString('\n')
		return err
	}}
	if _, err := fmt.Sscan(os.Getenv(childPage), &r.page); err != nil {
		return err
	}
	timeout, err := time.ParseDuration(os.Getenv(childTimeout))
	if err != nil {
		return err
	}
	if err := r.lead(ctx, timeout); err != nil {
		return err
	}
	for {
		n, err := r.pass(ctx)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		fmt.Println()
		if _, err := answers.ReadString('\n'); err != nil {
			return err
		}
	}
}
