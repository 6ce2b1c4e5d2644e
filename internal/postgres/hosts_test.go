package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// throughTwo returns two proxies to one server, and a URL with both.
func throughTwo(t *testing.T, direct string) (first, second *servers.Proxy, url string) {
	t.Helper()
	first, url = servers.ProxyFor(t, direct)
	second, _ = servers.ProxyFor(t, direct)
	return first, second, strings.Replace(url, first.Addr(), first.Addr()+","+second.Addr(), 1) + "&target_session_attrs=read-write"
}

// connect waits until a pool has a connection.
func connect(t *testing.T, db *postgres.DB) {
	t.Helper()
	check.Await(t, "a connection", func() bool { return db.Ping(t.Context()) == nil })
}

// TestTheHostThatWorkedLastIsTriedFirst counts connections. A host that does not answer costs 5 s.
func TestTheHostThatWorkedLastIsTriedFirst(t *testing.T) {
	t.Parallel()
	_, direct := postgrestest.Migrated(t, notes)
	first, second, url := throughTwo(t, direct)
	db := open(t, url, 4)
	again := func() {
		t.Helper()
		first.Cut()
		second.Cut()
		connect(t, db)
	}
	again()
	if first.Accepted() == 0 || second.Accepted() > 0 {
		t.Fatalf("%d and %d connections, want the first host", first.Accepted(), second.Accepted())
	}
	first.Refuse(true)
	again()
	tried := first.Accepted()
	for range 3 {
		again()
	}
	if got := first.Accepted(); got != tried {
		t.Errorf("%d connections tried the host that is away first", got-tried)
	}
	first.Refuse(false)
	second.Refuse(true)
	again()
	if got := first.Accepted(); got == tried {
		t.Error("the first host was not tried when it was the only one")
	}
}

// TestAPoolLeavesAServerThatIsReadOnly makes the sessions read-only, as those of a pooler are whose
// server became a standby.
func TestAPoolLeavesAServerThatIsReadOnly(t *testing.T) {
	t.Parallel()
	for name, attributes := range map[string]string{"with": "&target_session_attrs=read-write", "without": ""} {
		t.Run(name+" target_session_attrs", func(t *testing.T) {
			t.Parallel()
			observer, direct := postgrestest.Migrated(t, notes)
			db := open(t, direct+attributes, 4)
			readOnlySessions(t, db)
			n := notebook{t, db, observer}
			for attempt := range 3 {
				err := writing(t.Context(), db, attempt)
				if failed := err != nil; failed != (attempt == 0 || attributes == "") {
					t.Errorf("attempt %d: %v", attempt+1, err)
				}
				if err != nil && !postgres.Unavailable(err) {
					t.Errorf("%v is not Unavailable", err)
				}
			}
			n.want(map[bool]int{true: 2, false: 0}[attributes != ""])
		})
	}
}

// TestOfTwoHostsOnlyOneThatTakesWritesIsUsed has a URL without target_session_attrs. While its
// first host is away, the second one is read-only. A pool that remembered it would stay there for
// ever.
func TestOfTwoHostsOnlyOneThatTakesWritesIsUsed(t *testing.T) {
	t.Parallel()
	for name, parameter := range map[string]string{"without": "", "with any": "&target_session_attrs=any"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, direct := postgrestest.Migrated(t, notes)
			first, second, url := throughTwo(t, direct)
			url = strings.Replace(url, "&target_session_attrs=read-write", parameter, 1)
			first.Refuse(true)
			makeDatabaseReadOnly(t, direct, "on")
			db := open(t, url, 4)
			if err := db.Ping(t.Context()); err == nil || !postgres.Unavailable(err) {
				t.Errorf("the pool connected to a read-only host, error %v", err)
			}
			first.Refuse(false)
			makeDatabaseReadOnly(t, direct, "off")
			tried := second.Accepted()
			if err := db.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			if second.Accepted() > tried {
				t.Error("the read-only host was tried first")
			}
		})
	}
}

// makeDatabaseReadOnly makes new sessions of this database read-only, like those of a standby.
func makeDatabaseReadOnly(t *testing.T, url, value string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check.Must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	name := pgx.Identifier{conn.Config().Database}.Sanitize()
	change := "BEGIN READ WRITE; ALTER DATABASE " + name + " SET default_transaction_read_only = " + value + "; COMMIT"
	if _, err := conn.PgConn().Exec(t.Context(), change).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// TestTheLastAddressOfAHostIsTriedFirst: one name may have the addresses of several servers.
func TestTheLastAddressOfAHostIsTriedFirst(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://db:5432/shop")
	check.Must(t, err)
	config.LookupFunc = func(context.Context, string) ([]string, error) {
		return []string{"10.0.0.1", "fd00::2", "10.0.0.3"}, nil
	}
	for last, want := range map[string][]string{
		"":               {"10.0.0.1", "fd00::2", "10.0.0.3"},
		"10.0.0.3:5432":  {"10.0.0.3", "10.0.0.1", "fd00::2"},
		"[fd00::2]:5432": {"fd00::2", "10.0.0.1", "10.0.0.3"},
		"10.0.0.9:5432":  {"10.0.0.1", "fd00::2", "10.0.0.3"},
	} {
		got, err := postgres.LookupAfter(t.Context(), *config, last, "db")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("after %q: %q, want %q; error %v", last, got, want, err)
		}
	}
}

// readOnlySessions opens two sessions side by side, and makes both read-only.
func readOnlySessions(t *testing.T, db *postgres.DB) {
	t.Helper()
	makeReadOnly := func(tx *gorm.DB) error {
		return tx.Exec("SELECT set_config('default_transaction_read_only', 'on', false)").Error
	}
	err := db.InGorm(t.Context(), func(tx *gorm.DB) error {
		return errors.Join(db.InGorm(t.Context(), makeReadOnly), makeReadOnly(tx))
	})
	check.Must(t, err)
}

// TestAnIdlePoolFollowsAFailover: one pool meets the new primary, and the other one is idle. Then
// the old primary is back, and takes writes.
func TestAnIdlePoolFollowsAFailover(t *testing.T) {
	t.Parallel()
	_, direct := postgrestest.Migrated(t, notes)
	first, second, url := throughTwo(t, direct)
	busy, idle := open(t, url, 4), open(t, url, 4)
	connect(t, busy)
	connect(t, idle)
	first.Refuse(true)
	first.Cut()
	connect(t, busy)
	first.Refuse(false)
	before := second.Accepted()
	connect(t, idle)
	if second.Accepted() == before {
		t.Error("the idle pool has gone back to the old primary")
	}
}
