package page_test

import (
	"context"
	"maps"
	"net/http"
	"regexp"
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
	p, err := page.New(page.Config{Service: "order-service", Demo: true})
	if err != nil {
		t.Fatal(err)
	}
	orderpage.Register(p, d)
	return pagetest.Serve(t, p)
}

// node is a node of the diagram: its level, its name, and how many it counts.
var node = regexp.MustCompile(`<li class="node (.*)" data-node="(.*)">\s.*\s.*data-count>(.*)<`)

func TestTheOverviewCountsTheEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(5, "order.created")
	f.exec("UPDATE outbox_queue SET available_at = now(), failed_at = NULL, failure_code = NULL WHERE id <> $1", ids[0])
	f.publish(uuid.MustParse(ids[1]))
	f.exec("INSERT INTO outbox_claims VALUES (gen_random_uuid(), 'a worker', now() + interval '1 hour', ARRAY[$1::uuid])", ids[2])

	waits := func() []string { return []string{"a session with the broker"} }
	site := overview(t, orderpage.Dependencies{DB: f.db, Relay: true, WaitsFor: waits})
	got := map[string]string{}
	for _, n := range node.FindAllStringSubmatch(site.Get("", "/").Want(http.StatusOK, "the relay waits for a session with the broker", `href="/failed"`).Body, -1) {
		got[n[2]] = n[3] + n[1]
	}
	want := map[string]string{"committed": "5", "waiting": "2", "publishing": "1warn", "published": "1", "failed": "1bad", "halted": "0", "discarded": "0"}
	if !maps.Equal(got, want) {
		t.Errorf("the nodes are %v, want %v", got, want)
	}
}

func TestAProcessWithoutARelaySaysSo(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	site := overview(t, orderpage.Dependencies{DB: db, WaitsFor: func() []string { return []string{"x"} }})
	site.Get("", "/").Want(http.StatusOK, "this process has no relay").WantNot("the relay waits")
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
