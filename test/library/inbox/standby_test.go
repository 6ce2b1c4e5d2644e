// Package inbox_test proves what package inbox promises with servers that a test may stop and kill.
package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds each wait of a test. No promise rests on it.
const limit = time.Minute

type message string

func (m message) MessageID() string { return string(m) }

// TestP5AKnownMessageWaitsForTheStandby: a message's first COMMIT waits for a standby that is away,
// and its client gives up. PostgreSQL shows the row all the same. So the message comes again and is
// known. It must not be acknowledged before the standby has the row: the primary may be lost.
func TestP5AKnownMessageWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	primary := servers.Postgres(t)
	standby := servers.Standby(t, primary, "standby")
	pool, err := pgxpool.New(ctx, primary.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := inbox.Migrate(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if err := primary.Synchronous(ctx, "standby"); err != nil {
		t.Fatal(err)
	}
	defer func() { // so that nothing waits when the pool closes
		if err := primary.Synchronous(context.WithoutCancel(ctx), ""); err != nil {
			t.Error(err)
		}
	}()
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}

	handled := 0
	in := inbox.Once(pool, "a", func(context.Context, pgx.Tx, message) error {
		handled++
		return nil
	})
	ended := make(chan error, 1)
	impatient, giveUp := context.WithCancel(ctx)
	go func() { ended <- in.Handle(impatient, []message{"1"}) }()
	await(t, pool, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first delivery: %v", err)
	}
	await(t, pool, "SELECT count(*) = 1 FROM processed_messages")

	go func() { ended <- in.Handle(ctx, []message{"1"}) }()
	await(t, pool, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ILIKE 'commit'")
	select {
	case err := <-ended:
		t.Fatalf("the second delivery did not wait: %v", err)
	default:
	}
	if err := standby.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || handled != 1 {
		t.Errorf("the second delivery: %v; handled %d times", err, handled)
	}
	if err := primary.AwaitStandby(ctx, "standby"); err != nil {
		t.Error(err)
	}
}

// await repeats a query until it returns true.
func await(t *testing.T, pool *pgxpool.Pool, query string) {
	t.Helper()
	for end, yes := time.Now().Add(limit), false; !yes; {
		if err := pool.QueryRow(t.Context(), query).Scan(&yes); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if time.Now().After(end) {
			t.Fatalf("not after %s: %s", limit, query)
		}
	}
}
