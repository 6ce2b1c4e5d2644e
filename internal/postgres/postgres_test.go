package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func open(t *testing.T, url string, connections int32, options ...postgres.Option) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, connections, options...)
	check.Must(t, err)
	t.Cleanup(db.Close)
	return db
}

// TestANewConnectionTakesTheFreshPassword, and the user.
func TestANewConnectionTakesTheFreshPassword(t *testing.T) {
	t.Parallel()
	right := servers.Database(t)
	wrong, err := url.Parse(right)
	check.Must(t, err)
	wrong.User = url.UserPassword("nobody", "old")
	fresh, errFile := right, error(nil)
	db := open(t, wrong.String(), 1, postgres.Fresh(func() (string, error) { return fresh, errFile }))
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	db.Pool().Reset()
	if errFile = errors.New("no file"); !errors.Is(db.Ping(t.Context()), errFile) {
		t.Error("the file was not read again")
	}
}

// TestReplicasMayMigrateTogether: each start also grants, which writes the same rows of the catalogue.
func TestReplicasMayMigrateTogether(t *testing.T) {
	t.Parallel()
	const replicas, starts = 4, 25
	granting := notes
	granting.Grants = "DO $$ BEGIN REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC; GRANT SELECT ON notes TO PUBLIC; END $$"
	url := servers.Database(t)
	var together sync.WaitGroup
	for range replicas {
		db := open(t, url, 4)
		together.Go(func() {
			for range starts {
				if _, err := granting.Apply(t.Context(), db); err != nil {
					t.Error(err)
				}
			}
		})
	}
	together.Wait()
	if err := open(t, url, 4).Ready(t.Context(), granting); err != nil {
		t.Error(err)
	}
}

func TestWaitReturnsWhenTheDatabaseComes(t *testing.T) {
	t.Parallel()
	direct := servers.Database(t)
	proxy, through := servers.ProxyFor(t, direct)
	proxy.Refuse(true)
	db := open(t, through, 4)
	if err := db.Ping(t.Context()); !postgres.Unavailable(err) {
		t.Fatalf("a database that is down is not Unavailable: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- db.Wait(t.Context(), notes) }()
	proxy.Refuse(false)
	if _, err := notes.Apply(t.Context(), open(t, direct, 4)); err != nil {
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
