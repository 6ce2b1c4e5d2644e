package servers_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPostgresKeepsItsRowsAndItsAddress(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	folder, err := os.MkdirTemp("", "test-servers-") // unlike t.TempDir, the user postgres can enter it
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(folder)) })
	server, err := servers.NewPostgres(folder, process.Detached)
	must(t, err)
	must(t, server.Start(ctx))
	url := server.URL("postgres")
	execute(t, url, "CREATE TABLE survivor AS SELECT 1 AS n")

	for name, end := range map[string]func() error{
		"stop": func() error { return server.Stop(ctx) },
		"kill": server.Kill,
	} {
		must(t, end())
		if server.Running() {
			t.Errorf("it runs after %s", name)
		}
		must(t, server.Start(ctx))
		execute(t, url, "SELECT n FROM survivor")
	}
	again, err := servers.NewPostgres(folder, process.Detached) // as another program does
	must(t, err)
	if !again.Running() || again.URL("postgres") != url {
		t.Errorf("reopened: it runs: %t, at %s, want %s", again.Running(), again.URL("postgres"), url)
	}
	must(t, again.Close())
	if server.Running() {
		t.Error("it runs although it was closed")
	}
}

// limited returns a context that ends long after a start has failed.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(limited(t), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(limited(t), statement)
	must(t, err)
}
