package servers_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

func TestAStandbyTakesOverAndTheOldPrimaryFollowsIt(t *testing.T) {
	t.Parallel()
	ctx := shortContext(t)
	old := servers.Postgres(t)
	execute(t, old.URL("postgres"), "CREATE TABLE survivor AS SELECT 1 AS n")
	standby, err := servers.NewStandby(ctx, worldReadableFolder(t), process.WithParent, old.URL("postgres"), "standby")
	must(t, err)
	t.Cleanup(func() { must(t, standby.Close()) })
	must(t, standby.Start(ctx))
	must(t, old.Synchronous(ctx, "standby"))
	if err := old.CopyFrom(ctx, standby.URL("postgres"), "old"); !errors.Is(err, servers.ErrRunning) {
		t.Errorf("error %v, want that the server runs", err)
	}

	execute(t, old.URL("postgres"), "INSERT INTO survivor VALUES (2)")
	must(t, old.Kill())
	must(t, standby.Promote(ctx))
	execute(t, standby.URL("postgres"), "INSERT INTO survivor VALUES (3)")

	must(t, old.CopyFrom(ctx, standby.URL("postgres"), "old"))
	must(t, old.Start(ctx))
	must(t, standby.AwaitStandby(ctx, "old"))
	conn, err := pgx.Connect(ctx, old.URL("postgres"))
	must(t, err)
	defer func() { _ = conn.Close(ctx) }()
	var rows int
	var follows bool
	must(t, conn.QueryRow(ctx, "SELECT count(*), pg_is_in_recovery() FROM survivor").Scan(&rows, &follows))
	if rows != 3 || !follows {
		t.Errorf("%d rows, a standby: %t; want 3 rows on a standby", rows, follows)
	}

	must(t, standby.Stop(ctx))
	must(t, old.Promote(ctx))
	must(t, standby.Follow(old.URL("postgres"), "standby"))
	must(t, standby.Start(ctx))
	execute(t, old.URL("postgres"), "INSERT INTO survivor VALUES (4)")
	must(t, old.AwaitStandby(ctx, "standby"))
}
