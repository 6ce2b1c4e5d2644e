package servers_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPostgresKeepsItsRowsAndItsAddress(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), check.Limit)
	defer cancel()
	folder, err := os.MkdirTemp("", "test-servers-") // unlike t.TempDir, the user postgres can enter it
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(folder)) })
	server, err := servers.NewPostgres(folder, process.Detached)
	must(t, err)
	must(t, server.Start(ctx))
	url := server.URL("postgres")
	must(t, server.Execute(ctx, "postgres", "CREATE TABLE survivor AS SELECT 1 AS n"))

	for name, end := range map[string]func() error{
		"stop": func() error { return server.Stop(ctx) },
		"kill": server.Kill,
	} {
		must(t, end())
		if server.Running() {
			t.Errorf("it runs after %s", name)
		}
		must(t, server.Start(ctx))
		must(t, server.Execute(ctx, "postgres", "SELECT n FROM survivor"))
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

var must = check.Must // many lines have it
