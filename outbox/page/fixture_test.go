package page_test

import (
	"bytes"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/page"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(4)
	goleak.VerifyTestMain(m)
}

// site is a page with an outbox of its own, mounted below a prefix.
type site struct {
	*testing.T
	pool   *pgxpool.Pool
	page   *page.Page
	server *httptest.Server
	logged *bytes.Buffer // read it only between requests
}

// hashes are the passwords of the users: each is the user's name, three times.
var hashes = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, name := range []string{"ann", "ben", "rob"} {
		hash, _ := bcrypt.GenerateFromPassword([]byte(strings.Repeat(name, 3)), bcrypt.MinCost)
		all[name] = string(hash)
	}
	return all
})

// withUsers has two operators, and rob who may look.
func withUsers() page.Config {
	return page.Config{Users: func() (map[string]string, error) { return hashes(), nil }, Operators: []string{"ann", "ben"}}
}

func newSite(t *testing.T, c page.Config) site {
	t.Helper()
	pool := dbtest.Migrated(t)
	logged := &bytes.Buffer{}
	c.Logger = slog.New(slog.NewTextHandler(logged, nil))
	p := page.New(pool, c)
	mux := http.NewServeMux()
	mux.Handle("/outbox/", http.StripPrefix("/outbox", p))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return site{t, pool, p, server, logged}
}

// answer is what the page has answered.
type answer struct {
	site
	*http.Response
	path, text string
}

// send sends a request as a user; "" has no login. It follows no redirect.
func (s site) send(user, method, path string, form url.Values, headers ...string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.server.URL+"/outbox/"+path, strings.NewReader(form.Encode()))
	must(s.T, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if user != "" {
		r.SetBasicAuth(user, strings.Repeat(user, 3))
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(s.T, err)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert // it is
	return answer{s, response, path, string(body)}
}

func (s site) get(user, path string) answer {
	s.Helper()
	return s.send(user, http.MethodGet, path, nil)
}

func (s site) post(user, path string, form url.Values) answer {
	s.Helper()
	return s.send(user, http.MethodPost, path, form)
}

// want checks the status, and that the text has all these, as people read it.
func (a answer) want(status int, texts ...string) answer {
	a.Helper()
	read := readable(a.text)
	for _, text := range texts {
		if !strings.Contains(read, text) {
			a.Errorf("%s: %q is missing in\n%s", a.path, text, read)
		}
	}
	if a.StatusCode != status {
		logged := a.logged.String()
		a.Fatalf("%s: status %d, want %d:\n%s\nThe end of the log:\n%s", a.path, a.StatusCode, status, read, logged[max(0, len(logged)-2000):])
	}
	return a
}

func (a answer) wantNot(texts ...string) answer {
	a.Helper()
	for _, text := range texts {
		if strings.Contains(a.text, text) {
			a.Errorf("%s: %q is in\n%s", a.path, text, readable(a.text))
		}
	}
	return a
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
	links  = regexp.MustCompile(`<a href="([^"]*)"[^>]*>(?:<[^>]*>)*([^<]*)`)
	fields = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

func readable(text string) string {
	return spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(text, "")), " ")
}

// follow opens the first link with this text.
func (a answer) follow(user, text string) answer {
	a.Helper()
	for _, link := range links.FindAllStringSubmatch(a.text, -1) {
		if strings.TrimSpace(html.UnescapeString(link[2])) == text {
			return a.get(user, strings.TrimPrefix(html.UnescapeString(link[1]), "./"))
		}
	}
	a.Fatalf("%s: there is no link %q in\n%s", a.path, text, a.text)
	return a
}

// form returns the hidden fields of the page's form, with these others.
func (a answer) form(pairs ...string) url.Values {
	a.Helper()
	form := url.Values{}
	for _, field := range fields.FindAllStringSubmatch(a.text, -1) {
		form.Set(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

// redirected checks that a form was taken, and opens the page where it leads.
func (a answer) redirected(user string) answer {
	a.Helper()
	to := a.want(http.StatusSeeOther).Header.Get("Location")
	if strings.Contains(to, "/") {
		a.Errorf("%s leads to %q, which loses the prefix", a.path, to)
	}
	return a.get(user, to)
}

// failed appends events that have failed, of one topic and reason, and returns their ids.
func (s site) failed(n int, topic, reason string) (ids []uuid.UUID) {
	s.Helper()
	events := make([]outbox.Event, n)
	for i := range events {
		events[i] = outbox.Event{
			ID: uuid.Must(uuid.NewV7()), Topic: topic, Aggregate: "order", AggregateID: uuid.NewString(), Version: 1,
			Payload: []byte(`{"customer_email": "ann@example.com"}`), Headers: map[string]string{"tenant": "acme"},
		}
		ids = append(ids, events[i].ID)
	}
	s.append(events...)
	s.exec(`UPDATE outbox_queue SET failed_at = now() - interval '1 hour', available_at = 'infinity', retry_count = 11,
		failure_code = $2, failure_reason = '550 <ann@example.com> is not known' WHERE id = ANY ($1)`, ids, reason)
	return ids
}

func (s site) append(events ...outbox.Event) {
	s.Helper()
	for len(events) > 0 {
		some := events[:min(len(events), 1000)]
		must(s.T, pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) error { return outbox.Append(s.Context(), tx, some...) }))
		events = events[len(some):]
	}
}

func (s site) exec(sql string, args ...any) {
	s.Helper()
	_, err := s.pool.Exec(s.Context(), sql, args...)
	must(s.T, err)
}

// count counts the rows of a table with a condition.
func (s site) count(from string) (n int) {
	s.Helper()
	must(s.T, s.pool.QueryRow(s.Context(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

// wantDecisions checks what was recorded, the newest first: who, what, and how many were changed.
func (s site) wantDecisions(want ...operate.Decision) {
	s.Helper()
	found, err := operate.NewLog(s.pool).List(s.Context(), uuid.Nil, 100)
	must(s.T, err)
	if len(found) != len(want) {
		s.Fatalf("recorded %+v, want %+v", found, want)
	}
	for i, d := range found {
		if d.Operator != want[i].Operator || d.Action != want[i].Action || d.Done != want[i].Done || d.Via != operate.Page {
			s.Errorf("recorded %+v, want %+v", d, want[i])
		}
	}
}

func by(user string, action operate.Action, done int) operate.Decision {
	return operate.Decision{By: operate.By{Operator: user}, Action: action, Done: done}
}

var must = dbtest.Must // many lines have it
