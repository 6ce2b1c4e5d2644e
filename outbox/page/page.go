package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/outbox/operate"
)

// Config says whose page it is, and who may use it. The zero value shows everything but payloads,
// at localhost.
type Config struct {
	Name        string // of the service
	Event       string // what its users call an event, such as "e-mail"
	Topic       string // what they call a topic, such as "domain"
	Destination string // where the events go, such as "the mail server"
	Aggregate   string // the type of aggregate that an id without a type means, such as "order"

	// Users returns the names of those who may log in, with the bcrypt hashes of their passwords. It
	// is called at each request, so a change needs no restart. Nil: everybody who reaches the page at
	// localhost is [Anonymous], without a login.
	Users func() (map[string]string, error)
	// Operators are the users who may decide and see payloads. The others may only look.
	Operators []string
	// Proxies may say who their client is, in the header X-Forwarded-For. Without it, all clients of a
	// proxy share one limit for wrong passwords.
	Proxies []netip.Prefix

	Health   func() error                    // the relay's; nil: this process has no relay
	Problems func(context.Context) []Problem // more of them, such as dead letters
	Runbook  Runbook
	Traces   string       // a URL that a trace id is added to, such as http://jaeger/trace/
	Logger   *slog.Logger // default: slog.Default()
}

// Anonymous is who uses a page without [Config].Users.
const Anonymous = "anonymous"

// Runbook has what to read about each kind of problem: URLs, or names of chapters. They may be "".
type Runbook struct{ Relay, Database, Paused, Failed, Late string }

// Problem is something that is wrong now.
type Problem struct {
	Text    string    // a sentence
	Since   time.Time // zero: unknown
	Error   string    // the last one
	Command string    // lists what the problem is about
	Links   []Link    // to its list
	Runbook string    // a URL, or the name of a chapter
}

// Link leads to a page.
type Link struct{ Text, To string }

// Page answers the requests of operators.
type Page struct {
	Config
	operator *operate.Operator
	log      *operate.Log
	login    login
	turns    chan struct{} // of those who use the database
	deciding chan struct{} // one decision at a time, so that others can look meanwhile
	access   *prometheus.CounterVec
	logged   atomic.Int64 // when a client that has to wait was logged last, in Unix seconds
	handler  http.Handler
}

// New returns the page of the outbox in the schema of pool. It uses at most five connections.
func New(pool *pgxpool.Pool, c Config) *Page {
	c.Event, c.Topic, c.Destination = cmp.Or(c.Event, "event"), cmp.Or(c.Topic, "topic"), cmp.Or(c.Destination, "the destination")
	c.Name, c.Logger = cmp.Or(c.Name, "outbox"), cmp.Or(c.Logger, slog.Default())
	p := &Page{
		Config: c, operator: operate.New(pool), log: operate.NewLog(pool), turns: make(chan struct{}, 4), deciding: make(chan struct{}, 1), login: newLogin(),
		access: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "page_access_total", Help: "Logins to the operators' page, and requests that it refused, by result.",
		}, []string{"result"}),
	}
	p.operator.Logger = c.Logger
	mux := http.NewServeMux()
	for path, show := range map[string]handler{
		"GET /{$}": p.overview, "GET /list": p.list, "GET /event": p.event, "GET /aggregate": p.aggregate,
		"GET /topics": p.topics, "GET /decisions": p.decisions, "GET /find": p.find, "POST /find": p.findText,
		"GET /decide": p.ask, "POST /decide": p.decide,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, show) })
	}
	mux.HandleFunc("GET /style.css", serveStyle)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.answer(w, r, func(context.Context, request) (view, error) {
			return view{}, refused{http.StatusNotFound, "There is no such page."}
		})
	})
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.note(r, "cross_origin", "")
		http.Error(w, "This request comes from another site, so it is refused. Nothing was changed.", http.StatusForbidden)
	}))
	p.handler = guard.Handler(p.authenticated(mux))
	return p
}

// headers are set on every answer.
var headers = map[string]string{
	"Content-Security-Policy":    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	"X-Content-Type-Options":     "nosniff",
	"Referrer-Policy":            "same-origin",
	"Cache-Control":              "no-store",
	"Cross-Origin-Opener-Policy": "same-origin",
}

// ServeHTTP answers a request. The path must begin with the page's own part: see http.StripPrefix.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	p.handler.ServeHTTP(w, r)
}

// Collector returns the page's numbers for Prometheus.
func (p *Page) Collector() prometheus.Collector { return p.access }

// note counts and logs a login, or a request that is refused.
func (p *Page) note(r *http.Request, result, user string) {
	p.access.WithLabelValues(result).Inc()
	if last, now := p.logged.Load(), time.Now().Unix(); result == limited && (last == now || !p.logged.CompareAndSwap(last, now)) {
		return // one line in a second says enough about a flood
	}
	level := slog.LevelWarn
	if result == "login" {
		level = slog.LevelInfo
	}
	p.Logger.Log(r.Context(), level, "access to the operators' page", "result", result, "user", user, "client", p.client(r))
}

// request is a request of a user.
type request struct {
	*http.Request
	user    string
	decides bool // the user is an operator
	query   url.Values
}

// by returns a new decision of the user.
func (r request) by(filter string) operate.By {
	return operate.NewDecision(r.user, operate.Page, filter)
}

// handler returns a view, or an error. A [refused] is shown.
type handler func(context.Context, request) (view, error)

// refused is an answer that says what is wrong with a request.
type refused struct {
	status int
	text   string
}

func (e refused) Error() string { return e.text }

const (
	readTimeout   = 5 * time.Second
	decideTimeout = 15 * time.Second
)

// answer runs a handler, and writes its view.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, show handler) {
	timeout := readTimeout
	if r.Method == http.MethodPost {
		timeout = decideTimeout
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	req := request{Request: r, user: userOf(r)}
	req.decides = p.isOperator(req.user)
	var v view
	turns := p.turns
	if r.Method == http.MethodPost {
		turns = p.deciding
	}
	err := req.read()
	if err == nil {
		select {
		case turns <- struct{}{}:
			v, err = show(ctx, req)
			<-turns
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		v = p.failure(r, err)
	}
	p.write(w, req, v) //nolint:contextcheck // it is the request's
}

// read reads the query, and the form of a POST. PostgreSQL has no zero bytes, and only UTF-8.
func (r *request) read() error {
	if err := r.ParseForm(); err != nil {
		return refused{http.StatusBadRequest, "The request cannot be read: " + err.Error()}
	}
	r.query = r.URL.Query()
	if r.Method == http.MethodPost {
		r.query = r.PostForm
	}
	for name, values := range r.query {
		for _, value := range values {
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) || len(value) > 1024 {
				return refused{http.StatusUnprocessableEntity, fmt.Sprintf("The field %q is too long, or is not text.", name)}
			}
		}
	}
	return nil
}

// get returns a field without the spaces around it.
func (r request) get(name string) string { return strings.TrimSpace(r.query.Get(name)) }

// id returns the UUID in a field.
func (r request) id(name string) (uuid.UUID, error) {
	id, err := uuid.Parse(r.get(name))
	if err != nil {
		return id, refused{http.StatusUnprocessableEntity, fmt.Sprintf("The field %q is not an id such as 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57.", name)}
	}
	return id, nil
}

// failure is the view of an error.
func (p *Page) failure(r *http.Request, err error) view {
	said, ok := errors.AsType[refused](err)
	switch {
	case ok:
	case errors.Is(err, operate.ErrNoDecision):
		said = refused{http.StatusNotFound, "There is no such decision."}
	case errors.Is(err, operate.ErrNoEvent):
		said = refused{http.StatusNotFound, "There is no such event. It was never committed, or it was finished longer ago than the retention."}
	case errors.Is(err, operate.ErrChanged), errors.Is(err, operate.ErrDecided), errors.Is(err, operate.ErrNotPaused):
		said = refused{http.StatusConflict, "Nothing was changed: " + leaf(err) + ". Look again."}
	default:
		p.Logger.ErrorContext(r.Context(), "the operators' page cannot answer", "path", r.URL.Path, "error", err)
		said = refused{http.StatusServiceUnavailable, "The database does not answer in time, or refuses. The log says why. A decision was made completely, or not at all: the list of decisions has it, or not."}
	}
	return view{Title: http.StatusText(said.status), Body: "failure", Data: said.text, Status: said.status}
}

// leaf returns the innermost error's text.
func leaf(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}
