package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/page/pagetest"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/internal/deadletter/deadlettertest"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/internal/notification"
	mailpage "example.com/transactional-outbox/notification-service/internal/page"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// fixture is a page with a queue and a database of the test's own. Ann and ben may operate, and rob
// may read.
type fixture struct {
	deadlettertest.Queues
	users string
	dbURL string
	db    *postgres.DB
	log   *operate.Log
	site  pagetest.Site
	t     *testing.T
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{Queues: deadlettertest.New(t), users: pagetest.Users(t), t: t}
	f.db, f.dbURL = postgrestest.Migrated(t, migrations.Schema)
	f.log = operate.NewLog(f.db.Pool())
	return f.serve()
}

// serve returns f with a page of another process.
func (f fixture) serve() fixture {
	f.Helper()
	p, err := page.New(page.Config{
		Service: "notification-service", Users: f.users, Peer: "order-service",
		PeerPage: "http://orders.example", Jaeger: "http://jaeger.example",
	})
	f.Check(err)
	db, err := page.OpenDatabase(f.Context(), f.dbURL)
	f.Check(err)
	mailpage.Register(p, mailpage.Dependencies{
		DB: db, Broker: rabbitmq.Config{URL: f.URL, Name: f.Name()}, Letters: f.QueueWithin,
		Queue: f.Service, DeadLetters: f.Letters, WaitsFor: func() []string { return nil },
	})
	f.Cleanup(db.Close)
	f.site = pagetest.Serve(f.t, p)
	return f
}

// answer is what the browser gets.
type answer = pagetest.Answer

// get asks for a page as ann.
func (f fixture) get(path string) answer {
	f.Helper()
	return f.getAs("ann", path)
}

func (f fixture) getAs(user, path string) answer {
	f.Helper()
	return untilRead(func() answer { return f.site.Get(user, path) })
}

// post sends a form.
func (f fixture) post(user, path string, form url.Values) answer {
	f.Helper()
	return untilRead(func() answer { return f.site.Post(user, path, form) })
}

// untilRead asks again while the queue is still being read.
func untilRead(ask func() answer) answer {
	for deadline := time.Now().Add(deadlettertest.Timeout); ; {
		a := ask()
		if !strings.Contains(a.Body, "being read") || time.Now().After(deadline) {
			return a
		}
	}
}

var previewID = regexp.MustCompile(`name="preview" value="([^"]+)"`)

// preview returns the id of the preview that a form leads to.
func (f fixture) preview(user string, form url.Values, texts ...string) string {
	f.Helper()
	a := f.post(user, "/dead/preview", form).Want(http.StatusOK, texts...)
	found := previewID.FindStringSubmatch(a.Body)
	if found == nil {
		f.Fatalf("no preview in\n%s", a.Body)
	}
	return found[1]
}

// decide types the count, and returns the decision when it has ended.
func (f fixture) decide(user, preview string, count int) operate.Decision {
	f.Helper()
	a := f.post(user, "/dead/decide", url.Values{"preview": {preview}, "count": {fmt.Sprint(count)}}).Want(http.StatusSeeOther)
	f.awaitEnd(a.Location)
	for _, d := range f.decisions() {
		if strings.HasSuffix(a.Location, d.Decision.String()) {
			return d
		}
	}
	return operate.Decision{}
}

// awaitEnd waits until a decision has ended, and returns its page. A replay makes one copy after the
// other, so a thousand take minutes on a machine that is busy.
func (f fixture) awaitEnd(path string) answer {
	f.Helper()
	for deadline := time.Now().Add(5 * deadlettertest.Timeout); ; time.Sleep(20 * time.Millisecond) {
		a := f.get(path).Want(http.StatusOK)
		if a.Refresh == "" {
			return a
		}
		if time.Now().After(deadline) {
			f.Fatalf("%s does not end", path)
		}
	}
}

func (f fixture) decisions() []operate.Decision {
	f.Helper()
	all, err := f.log.List(f.Context(), [16]byte{}, 100)
	f.Check(err)
	return all
}

// letters are what is in the queue.
func (f fixture) letters() (letters []deadletter.DeadLetter) {
	f.Helper()
	f.Check(f.Queue().Read(f.Context(), 0, nil, func(found deadletter.Found) bool {
		letters = append(letters, found.DeadLetter)
		return true
	}))
	return letters
}

// key is the key of the only dead letter.
func (f fixture) key() string {
	f.Helper()
	all := f.letters()
	if len(all) != 1 {
		f.Fatalf("%d dead letters", len(all))
	}
	return all[0].Key
}

// record records messages as the consumer does.
func (f fixture) record(requests ...notification.Request) {
	f.Helper()
	service := notification.NewService(
		notification.Config{From: "shop@example.com", DefaultRecipient: "guest@example.com"},
		f.db, mailer.Log{}, notification.NewMetrics(prometheus.NewRegistry()))
	f.Check(f.db.InTx(f.Context(), func(tx pgx.Tx) error {
		_, err := service.Record(f.Context(), tx, requests)
		return err
	}))
}

func (f fixture) exec(statement string, args ...any) {
	f.Helper()
	f.Check(f.db.InTx(f.Context(), func(tx pgx.Tx) error { _, err := tx.Exec(f.Context(), statement, args...); return err }))
}
