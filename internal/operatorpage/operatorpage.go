// Package operatorpage opens the library's page of an outbox as both services have it: with the
// users that the settings name, and with a pool of its own.
package operatorpage

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/outbox/page"
)

// connections is small. So pages never take from the rest of the service what it needs, and a page
// that is slow stops only other pages.
const connections = 2

// Open returns the page. It does not connect. Without users it is off; in the demo it is on, and
// everybody at localhost may decide. The caller calls closePage at the end.
func Open(
	ctx context.Context, c page.Config, s settings.Page, shared settings.Shared, metrics prometheus.Registerer,
) (view http.Handler, closePage func(), err error) {
	switch {
	case s.PageUsersFile != "":
		if _, err := s.Users(); err != nil {
			slog.ErrorContext(ctx, "nobody can use the page", "error", err) // it answers 503 until this is mended
		}
		c.Users, c.Operators, c.Proxies = s.Users, s.PageOperators, s.PageProxies
	case shared.AppEnv == settings.Demo:
		c.Operators = []string{page.Anonymous}
	default:
		return http.HandlerFunc(off), func() {}, nil
	}
	if s.JaegerURL != "" {
		c.Traces = strings.TrimSuffix(s.JaegerURL, "/") + "/trace/"
	}
	for _, chapter := range []*string{&c.Runbook.Relay, &c.Runbook.Database, &c.Runbook.Paused, &c.Runbook.Failed, &c.Runbook.Late} {
		*chapter = Runbook(s, *chapter)
	}
	db, err := postgres.Open(ctx, shared.DatabaseURL.Reveal(), connections, postgres.Fresh(settings.Fresh("DATABASE_URL")))
	if err != nil {
		return nil, nil, err
	}
	p := page.New(db.Pool(), c)
	metrics.MustRegister(p.Collector())
	return p, db.Close, nil
}

// Runbook is where a chapter of the runbook is.
func Runbook(s settings.Page, chapter string) string {
	return cmp.Or(s.RunbookURL, "docs/runbook.md") + "#" + strings.ToLower(chapter)
}

func off(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, "The page is off. To switch it on, set PAGE_USERS_FILE.\n")
}
