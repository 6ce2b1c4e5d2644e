package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/page/users"
)

// QueryTimeout is how long a handler may take. So while the database is away, the page says so
// within three seconds.
const QueryTimeout = 2500 * time.Millisecond

// maxQueries is how many handlers run at the same time. Further ones wait for a short time.
const maxQueries = 4

// maxBody is how long the body of a POST may be. The ids of [MaxItems] selected rows would fit.
const maxBody = 1 << 20

// Config describes the page of one service.
type Config struct {
	Service string // such as "order-service"
	Demo    bool   // no login, if there are no users
	Users   string // PAGE_USERS; "" outside the demo: the page is off
	Jaeger  string // JAEGER_URL
}

// Page answers the requests of people. Register all pages before the first request.
type Page struct {
	config    Config
	off       bool   // everything is 404
	login     *login // nil: the demo has none
	sections  []Link
	mux       *http.ServeMux
	handler   http.Handler // the mux behind the checks
	busy      chan struct{}
	previews  *previews
	decisions *decisions
	numbers   once[Numbers]
	streams   *streams
}

// New returns a page with the overview only. The error is about config.Users.
func New(config Config) (*Page, error) {
	known, err := users.Parse(config.Users)
	if err != nil {
		return nil, fmt.Errorf("PAGE_USERS: %w", err)
	}
	p := &Page{
		config: config, off: len(known) == 0 && !config.Demo,
		mux: http.NewServeMux(), busy: make(chan struct{}, maxQueries),
		previews: newPreviews(time.Now), decisions: newDecisions(), numbers: once[Numbers]{timeout: countTimeout},
	}
	p.streams = newStreams(p.diagram)
	if len(known) > 0 {
		verifier, err := users.NewVerifier(known)
		if err != nil {
			return nil, fmt.Errorf("PAGE_USERS: %w", err)
		}
		p.login = newLogin(verifier)
	}
	p.Section("/", "Overview")
	p.Handle("GET /{$}", Read, p.overview)
	p.mux.HandleFunc("GET /events", p.serveEvents)
	p.mux.Handle("GET /assets/{hash}/{name}", assets)
	p.mux.HandleFunc("/", p.notFound)
	p.handler = p.protected(p.mux)
	return p, nil
}

// Section adds a page to the navigation.
func (p *Page) Section(path, title string) { p.sections = append(p.sections, Link{title, path}) }

// Trace returns the link to a trace in Jaeger, or "" if its URL is not known.
func (p *Page) Trace(id string) string { return join(p.config.Jaeger, "/trace/"+id) }

func join(base, path string) string {
	if base == "" {
		return ""
	}
	return strings.TrimSuffix(base, "/") + path
}

// Handle adds a handler for users who have the role. The pattern is that of [http.ServeMux] and
// begins with "GET " or "POST ". A handler of GET must not change anything.
func (p *Page) Handle(pattern string, role Role, h Handler) {
	if method, _, _ := strings.Cut(pattern, " "); method != http.MethodGet && method != http.MethodPost {
		panic(fmt.Sprintf("page: the pattern %q must begin with GET or POST", pattern))
	}
	p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		p.answer(w, r, role, h)
	})
}

// ServeHTTP answers everything that the ops handler does not answer.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// During returns a function that runs work, and Run beside it. Both end with the context.
func (p *Page) During(work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		both, ctx := errgroup.WithContext(ctx)
		ctx, stop := context.WithCancel(ctx)
		both.Go(func() error { return p.Run(ctx) })
		both.Go(func() error {
			defer stop()
			return work(ctx)
		})
		return both.Wait()
	}
}

// Metrics returns how many browsers show the live numbers.
func (p *Page) Metrics() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "page_live_browsers", Help: "Browsers that show the live numbers of the page.",
	}, func() float64 { return float64(p.streams.count()) })
}

// Run sends live numbers and runs decisions until ctx ends. It returns when the last decision has
// ended, and all streams are ended.
func (p *Page) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		p.decisions.run(ctx)
		return nil
	})
	all.Go(func() error {
		p.streams.run(ctx)
		return nil
	})
	return all.Wait()
}
