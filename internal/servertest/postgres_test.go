package servertest_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/servertest/process"
)

func TestPostgresKeepsItsRowsAndItsPort(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	url := server.URL("postgres")
	execute(t, url, "CREATE TABLE survivor AS SELECT 1 AS n")

	for name, end := range map[string]func() error{
		"stop": func() error { return server.Stop(soon(t)) },
		"kill": server.Kill,
	} {
		must(t, end())
		if server.Running() {
			t.Errorf("it runs after %s", name)
		}
		requireFree(t, server.Port())
		must(t, server.Start(soon(t)))
		if got := server.URL("postgres"); got != url {
			t.Errorf("after %s its URL is %s, was %s", name, got, url)
		}
		execute(t, url, "SELECT n FROM survivor")
	}
}

func TestReopenedPostgresIsTheSameServer(t *testing.T) {
	t.Parallel()
	folder := worldReadableFolder(t)
	first, err := servertest.NewPostgres(folder, process.Detached)
	must(t, err)
	must(t, first.Start(soon(t)))
	t.Cleanup(func() { must(t, first.Close()) })
	execute(t, first.URL("postgres"), "CREATE DATABASE mine")

	again, err := servertest.NewPostgres(folder, process.Detached)
	must(t, err)
	if !again.Running() {
		t.Error("the reopened server does not run")
	}
	must(t, again.Start(soon(t))) // it runs already
	execute(t, again.URL("mine"), "SELECT")
	must(t, again.Close())
	if first.Running() {
		t.Error("the server runs although it was closed")
	}
	requireFree(t, first.Port())
}

func TestPostgresKillBreaksConnections(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	conn, err := pgx.Connect(soon(t), server.URL("postgres"))
	must(t, err)
	must(t, server.Kill())
	if err := conn.Ping(soon(t)); err == nil {
		t.Error("a connection outlived its killed server")
	}
	must(t, server.Kill()) // twice is once
	must(t, server.Stop(soon(t)))
}

// worldReadableFolder is one that the user postgres can enter.
func worldReadableFolder(t *testing.T) string {
	folder, err := os.MkdirTemp("", "servertest-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(folder)) })
	return folder
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(soon(t), url)
	must(t, err)
	defer func() { _ = conn.Close(soon(t)) }()
	_, err = conn.Exec(soon(t), statement)
	must(t, err)
}
