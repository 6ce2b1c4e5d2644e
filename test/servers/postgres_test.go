package servers_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

func TestPostgresKeepsItsRowsAndItsPort(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	url := server.URL("postgres")
	execute(t, url, "CREATE TABLE survivor AS SELECT 1 AS n")

	for name, end := range map[string]func() error{
		"stop": func() error { return server.Stop(shortContext(t)) },
		"kill": server.Kill,
	} {
		must(t, end())
		if server.Running() {
			t.Errorf("it runs after %s", name)
		}
		requireFree(t, server.Port())
		must(t, server.Start(shortContext(t)))
		if got := server.URL("postgres"); got != url {
			t.Errorf("after %s its URL is %s, was %s", name, got, url)
		}
		execute(t, url, "SELECT n FROM survivor")
	}
}

func TestReopenedPostgresIsTheSameServer(t *testing.T) {
	t.Parallel()
	folder := worldReadableFolder(t)
	first, err := servers.NewPostgres(folder, process.Detached)
	must(t, err)
	must(t, first.Start(shortContext(t)))
	t.Cleanup(func() { must(t, first.Close()) })
	execute(t, first.URL("postgres"), "CREATE DATABASE mine")

	again, err := servers.NewPostgres(folder, process.Detached)
	must(t, err)
	if !again.Running() {
		t.Error("the reopened server does not run")
	}
	must(t, again.Start(shortContext(t))) // no effect: it runs
	execute(t, again.URL("mine"), "SELECT")
	must(t, again.Close())
	if first.Running() {
		t.Error("the server runs although it was closed")
	}
	requireFree(t, first.Port())
}

func TestPostgresKillBreaksConnections(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	conn, err := pgx.Connect(shortContext(t), server.URL("postgres"))
	must(t, err)
	must(t, server.Kill())
	if err := conn.Ping(shortContext(t)); err == nil {
		t.Error("a connection outlived its killed server")
	}
	must(t, server.Kill()) // no effect: it has ended
	must(t, server.Stop(shortContext(t)))
}

// worldReadableFolder returns a folder that the user postgres can enter.
func worldReadableFolder(t *testing.T) string {
	folder, err := os.MkdirTemp("", "test-servers-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(folder)) })
	return folder
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(shortContext(t), url)
	must(t, err)
	defer func() { _ = conn.Close(shortContext(t)) }()
	_, err = conn.Exec(shortContext(t), statement)
	must(t, err)
}
