package main

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
)

const (
	things    = "CREATE TABLE things (name text, status text); INSERT INTO things VALUES ('held', 'new'), ('other', 'new')"
	condition = "NEW.status = 'done' AND NEW.name = 'held'"
	finish    = "UPDATE things SET status = 'done' WHERE name = 'held'"
)

// newLab returns a lab with one database and without services.
func newLab(t *testing.T) *lab {
	l := &lab{report: report{out: t.Output()}, settings: settings{orderDB: servers.Database(t)}}
	l.orders = connect(t, l.orderDB)
	return l
}

func connect(t *testing.T, url string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestAHeldUpdateWaitsAndIsNeverWritten(t *testing.T) {
	l := newLab(t)
	must(t, execute(t.Context(), l.orderDB, things))
	release, err := l.hold(t.Context(), l.orderDB, "things", condition)
	must(t, err)
	must(t, execute(t.Context(), l.orderDB, "UPDATE things SET status = 'done' WHERE name = 'other'"))

	ended := make(chan error, 1)
	go func() { ended <- execute(t.Context(), l.orderDB, finish) }()
	must(t, l.await(t.Context(), maxWait, func(ctx context.Context) (string, error) {
		waits, err := held(ctx, l.orders)
		if !waits {
			return "the UPDATE does not wait", err
		}
		return "", err
	}))
	must(t, release(t.Context()))
	if err := <-ended; err == nil {
		t.Error("the held UPDATE was written")
	}
	must(t, execute(t.Context(), l.orderDB, finish)) // released
	requireNoTrigger(t, l)
}

func TestAHoldEndsWithItsSession(t *testing.T) {
	l := newLab(t)
	must(t, execute(t.Context(), l.orderDB, things))
	_, err := l.hold(t.Context(), l.orderDB, "things", condition)
	must(t, err)
	must(t, execute(t.Context(), l.orderDB, `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must(t, l.await(ctx, maxWait, func(ctx context.Context) (string, error) {
		if err := execute(ctx, l.orderDB, finish); err != nil {
			return err.Error(), nil // it failed at the end of the session
		}
		return "", nil
	}))
}

func TestAnInterruptedHoldIsUndone(t *testing.T) {
	l := newLab(t)
	must(t, execute(t.Context(), l.orderDB, things))
	ctx, interrupt := context.WithCancel(t.Context())
	release, err := l.hold(ctx, l.orderDB, "things", condition)
	must(t, err)
	interrupt()
	if err := release(ctx); err == nil {
		t.Error("release succeeded after the context had ended")
	}
	must(t, l.close())
	l.orders = connect(t, l.orderDB)
	requireNoTrigger(t, l)
}

func requireNoTrigger(t *testing.T, l *lab) {
	t.Helper()
	var left int
	const query = "SELECT (SELECT count(*) FROM pg_trigger WHERE tgname = 'held_by_experiment') + (SELECT count(*) FROM pg_proc WHERE proname = 'held_by_experiment')"
	must(t, l.orders.QueryRow(t.Context(), query).Scan(&left))
	if left > 0 {
		t.Error("the trigger is left behind")
	}
}
