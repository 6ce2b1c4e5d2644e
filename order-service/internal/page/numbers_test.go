package page_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/page/pagetest"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	orderpage "example.com/transactional-outbox/order-service/internal/page"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

// overview serves the page with these dependencies, without a login, and returns the site.
func overview(t *testing.T, d orderpage.Dependencies) pagetest.Site {
	t.Helper()
	p, err := page.New(page.Config{Service: "order-service", Peer: "notification-service", Demo: true})
	if err != nil {
		t.Fatal(err)
	}
	orderpage.Register(p, d)
	return pagetest.Serve(t, p)
}

func numbers(t *testing.T, s pagetest.Site) (n page.Numbers, byName map[string]page.Node) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.Get("", "/numbers").Body), &n); err != nil {
		t.Fatal(err)
	}
	byName = map[string]page.Node{}
	for _, node := range n.Nodes {
		byName[node.Name] = node
	}
	return n, byName
}

func TestTheOverviewCountsTheEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(5, "order.created")
	f.exec("UPDATE outbox_queue SET available_at = now(), failed_at = NULL, failure_code = NULL WHERE id <> $1", ids[0])
	f.publish(uuid.MustParse(ids[1]))
	f.exec("INSERT INTO outbox_claims VALUES (gen_random_uuid(), 'a worker', now() + interval '1 hour', ARRAY[$1::uuid])", ids[2])

	waits := func() []string { return []string{"a session with the broker"} }
	site := overview(t, orderpage.Dependencies{DB: f.db, Relay: true, WaitsFor: waits})
	n, byName := numbers(t, site)
	for name, want := range map[string]int64{"committed": 5, "waiting": 2, "publishing": 1, "published": 1, "failed": 1, "halted": 0, "discarded": 0} {
		if got := byName[name].Count; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if byName["failed"].Level != page.Bad || byName["failed"].Path != "/failed" {
		t.Errorf("failed: %+v", byName["failed"])
	}
	if len(n.Gates) != 1 || n.Gates[0] != "the relay waits for a session with the broker" {
		t.Errorf("the gates are %q", n.Gates)
	}
	site.Get("", "/").Want(http.StatusOK, "the relay waits for a session with the broker")
}

func TestAProcessWithoutARelaySaysSo(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	site := overview(t, orderpage.Dependencies{DB: db, WaitsFor: func() []string { return []string{"x"} }})
	n, byName := numbers(t, site)
	if len(n.Gates) != 0 || byName["publishing"].Note != "this process has no relay" {
		t.Errorf("gates %q, note %q", n.Gates, byName["publishing"].Note)
	}
}

func TestWithoutADatabaseTheOverviewSaysSo(t *testing.T) {
	t.Parallel()
	db, err := page.OpenDatabase(context.WithoutCancel(t.Context()), "postgres://x:x@"+servers.FreeAddress(t)+"/x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	site := overview(t, orderpage.Dependencies{DB: db, Relay: true, WaitsFor: func() []string { return nil }})
	site.Get("", "/").Want(http.StatusOK, "no numbers: the database does not answer", "waits for the database")
}
