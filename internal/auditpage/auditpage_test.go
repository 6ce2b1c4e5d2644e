package auditpage_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/auditpage"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/page/pagetest"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	*testing.T
	log  *operate.Log
	site pagetest.Site
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	return fixture{t, operate.NewLog(db.Pool()), serve(t, db)}
}

func serve(t *testing.T, db *postgres.DB) pagetest.Site {
	t.Helper()
	p, err := page.New(page.Config{Service: "notification-service", Users: pagetest.Users(t)})
	if err != nil {
		t.Fatal(err)
	}
	auditpage.Register(p, operate.NewLog(db.Pool()), "message")
	return pagetest.Serve(t, p)
}

func (f fixture) get(path string) pagetest.Answer {
	f.Helper()
	return f.site.Get("rob", path)
}

// decide records a decision with a batch that has an end, or has none.
func (f fixture) decide(by operate.By, ended bool, items ...string) {
	f.Helper()
	id, err := f.log.Begin(f.Context(), by, operate.Replay, items)
	if err == nil && ended {
		err = f.log.Finish(f.Context(), id, len(items))
	}
	if err != nil {
		f.Fatal(err)
	}
}

func TestTheListLeadsToEachDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.get("/audit").Want(http.StatusOK, "No operator has decided anything")
	by := operate.NewDecision("ann", operate.CLI, "--reason malformed")
	f.decide(by, true, "A", "B")
	f.get("/audit").Want(http.StatusOK, "ann", "--reason malformed", "/audit/"+by.Decision.String(), "done", ">2<")
	f.get("/audit/"+by.Decision.String()).Want(http.StatusOK, "Replay of 2 messages", "Done: 2 messages", "command line", "/find?q=A", "/find?q=B", "2 changed")
}

func TestADecisionAboutATopicNamesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	by := operate.NewDecision("ann", operate.CLI, "--reason maintenance")
	id, err := f.log.Begin(t.Context(), by, operate.Pause, []string{"order.created"})
	if err == nil {
		err = f.log.Finish(t.Context(), id, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	shown := f.get("/audit/"+by.Decision.String()).Want(http.StatusOK, "Pause of 1 topic", "Done: 1 topic", "order.created", "--reason maintenance")
	if strings.Contains(shown.Body, "find?q=order.created") {
		t.Errorf("it links to a topic:\n%s", shown.Body)
	}
}

func TestABatchWithoutAnEndSaysAtMostThese(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	by := operate.NewDecision("ann", operate.Page, "ids")
	f.decide(by, true, "A")
	f.decide(by, false, "B", "key:0123")
	f.get("/audit").Want(http.StatusOK, "has no recorded end", "1 known")
	path := "/audit/" + by.Decision.String()
	body := f.get(path).Want(http.StatusOK)
	body.Want(http.StatusOK, "1 of 2 batches have no recorded end", "At most the items", "not recorded", "1 changed", "?after=")
	_, next, _ := strings.Cut(body.Body, path+"?after=")
	next, _, _ = strings.Cut(next, `"`)
	second := f.get(path + "?after=" + next).Want(http.StatusOK)
	second.Want(http.StatusOK, "at most these were changed", "key:0123", "First rows")
	if strings.Contains(second.Body, "find?q=key") || strings.Contains(body.Body, "Done: ") {
		t.Errorf("it links to a key, or it says done:\n%s", second.Body)
	}
}

func TestTheListHasPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 51 {
		f.decide(operate.NewDecision("ann", operate.CLI, "--all"), true, "A")
	}
	body := f.get("/audit").Want(http.StatusOK)
	_, next, found := strings.Cut(body.Body, "/audit?before=")
	next, _, _ = strings.Cut(next, `"`)
	if rows := strings.Count(body.Body, "<tr>"); !found || rows != 51 { // and the header
		t.Fatalf("%d rows, and there is a next page: %t", rows, found)
	}
	if last := f.get("/audit?before=" + next).Want(http.StatusOK); strings.Count(last.Body, "<tr>") != 2 || strings.Contains(last.Body, "before=") {
		t.Errorf("the last page is\n%s", last.Body)
	}
}

func TestAWrongIDIsAClearError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.get("/audit?before=x").Want(http.StatusUnprocessableEntity, "parameter before")
	f.get("/audit/x").Want(http.StatusNotFound, "not the id")
	f.get("/audit/"+uuid.NewString()).Want(http.StatusNotFound, "AUDIT_RETENTION")
}

// TestHostileTextIsEscaped: any publisher chooses the ids, and any user of the machine a name.
func TestHostileTextIsEscaped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hostile := `<script>alert(1)</script>"'&` + "\u202egnp"
	by := operate.NewDecision(hostile, operate.CLI, hostile)
	f.decide(by, true, hostile)
	for _, path := range []string{"/audit", "/audit/" + by.Decision.String()} {
		body := f.get(path).Want(http.StatusOK)
		if !strings.Contains(body.Body, "&lt;script&gt;alert(1)") || strings.Contains(body.Body, "<script>alert") || strings.Contains(body.Body, "\u202e") {
			t.Errorf("%s has it as it is:\n%s", path, body.Body)
		}
	}
}

// TestWithoutTheDatabaseThePageSaysSo and shows nothing old.
func TestWithoutTheDatabaseThePageSaysSo(t *testing.T) {
	t.Parallel()
	proxy, away := servers.ProxyFor(t, servers.Database(t))
	proxy.Close()
	db, err := postgres.Open(context.Background(), away, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	serve(t, db).Get("rob", "/audit").Want(http.StatusServiceUnavailable, "The database does not answer")
}
