package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/test/servers"
)

func open(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// TestANewConnectionTakesTheFreshPassword, and the user.
func TestANewConnectionTakesTheFreshPassword(t *testing.T) {
	t.Parallel()
	right := servers.Database(t)
	wrong, err := url.Parse(right)
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword("nobody", "old")
	fresh, errFile := right, error(nil)
	db, err := postgres.Open(t.Context(), wrong.String(), 1, postgres.Fresh(func() (string, error) { return fresh, errFile }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	db.Pool().Reset()
	if errFile = errors.New("no file"); !errors.Is(db.Ping(t.Context()), errFile) {
		t.Error("the file was not read again")
	}
}

func TestReplicasMayMigrateTogether(t *testing.T) {
	t.Parallel()
	url := servers.Database(t)
	var replicas sync.WaitGroup
	for range 4 {
		db := open(t, url)
		replicas.Go(func() {
			if _, err := notes.Apply(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	if err := open(t, url).Ready(t.Context(), notes); err != nil {
		t.Error(err)
	}
}

func TestReadyNamesTheCommandThatMigrates(t *testing.T) {
	t.Parallel()
	err := open(t, servers.Database(t)).Ready(t.Context(), postgres.Migrations{Files: notes.Files, Command: "shop migrate"})
	if err == nil || !strings.Contains(err.Error(), "shop migrate") {
		t.Errorf("error %v does not name the command", err)
	}
}

func TestWaitReturnsWhenTheDatabaseComes(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := open(t, server.URL("postgres"))
	if err := db.Ping(t.Context()); !postgres.Unavailable(err) {
		t.Fatalf("a database that is down is not Unavailable: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- db.Wait(t.Context(), notes) }()
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := notes.Apply(t.Context(), open(t, server.URL("postgres"))); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func TestMigrateDoesNotWaitForADatabaseThatDoesNotExist(t *testing.T) {
	t.Parallel()
	url := strings.Replace(servers.Database(t), "/test", "/no_such", 1)
	if err := notes.Migrate(t.Context(), url); err == nil {
		t.Error("migrated a database that does not exist")
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	db := open(t, servers.Database(t))
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := db.Ping(late); !postgres.Unavailable(err) {
		t.Errorf("a deadline is not Unavailable: %v", err)
	}
	err := db.InTx(t.Context(), func(tx pgx.Tx) error {
		return postgres.Write(t.Context(), tx, "", "SELECT * FROM nothing", nil)
	})
	if err == nil || postgres.Unavailable(err) {
		t.Errorf("a mistake of ours is Unavailable: %v", err)
	}
}

// TestOpenRefusesModesThatCannotSendArrays: with these modes, events were published and never
// marked as published. An error at the start is better.
func TestOpenRefusesModesThatCannotSendArrays(t *testing.T) {
	t.Parallel()
	for mode, opens := range map[string]bool{"exec": false, "simple_protocol": false, "cache_describe": true, "describe_exec": true} {
		db, err := postgres.Open(t.Context(), "postgres://localhost/x?default_query_exec_mode="+mode, 1)
		if db != nil {
			db.Close()
		}
		if (err == nil) != opens || err != nil && !strings.Contains(err.Error(), "default_query_exec_mode must not be "+mode) {
			t.Errorf("%s: error %v", mode, err)
		}
	}
}
