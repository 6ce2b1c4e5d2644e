package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// TestP5AKnownMessageWaitsForTheStandby: a message's first COMMIT waits for a standby that is away,
// and its client gives up. PostgreSQL shows the row all the same. So the message comes again and is
// known. It must not be acknowledged before the standby has the row: the primary may be lost.
func TestP5AKnownMessageWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), check.Limit)
	defer cancel()
	primary := servers.Postgres(t)
	standby := servers.Standby(t, primary, "standby")
	pool, err := pgxpool.New(ctx, primary.URL("postgres"))
	check.Must(t, err)
	defer pool.Close()
	check.Must(t, inbox.Migrate(ctx, pool))
	check.Must(t, primary.Synchronous(ctx, "standby"))
	defer func() { // so that nothing waits when the pool closes
		if err := primary.Synchronous(context.WithoutCancel(ctx), ""); err != nil {
			t.Error(err)
		}
	}()
	check.Must(t, standby.Kill())

	handled := 0
	in := inbox.Once(pool, "a", func(context.Context, pgx.Tx, message) error {
		handled++
		return nil
	})
	ended := make(chan error, 1)
	impatient, giveUp := context.WithCancel(ctx)
	go func() { ended <- in.Handle(impatient, []message{"1"}) }()
	check.AwaitTrue(t, pool, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first delivery: %v", err)
	}
	check.AwaitTrue(t, pool, "SELECT count(*) = 1 FROM processed_messages")

	go func() { ended <- in.Handle(ctx, []message{"1"}) }()
	check.AwaitTrue(t, pool, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ILIKE 'commit'")
	select {
	case err := <-ended:
		t.Fatalf("the second delivery did not wait: %v", err)
	default:
	}
	check.Must(t, standby.Start(ctx))
	if err := <-ended; err != nil || handled != 1 {
		t.Errorf("the second delivery: %v; handled %d times", err, handled)
	}
	if err := primary.AwaitStandby(ctx, "standby"); err != nil {
		t.Error(err)
	}
}
