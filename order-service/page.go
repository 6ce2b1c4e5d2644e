package main

import (
	"context"
	"fmt"
	"net/url"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/page/users"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/stage"
	orderpage "example.com/transactional-outbox/order-service/internal/page"
)

// page opens the page at / of OPS_ADDR, with a pool of its own. The caller closes it.
func (p parts) page(ctx context.Context, relays bool) (view *page.Page, closePage func(), err error) {
	view, err = page.New(page.Config{
		Service: service, Demo: p.config.AppEnv == settings.Demo, Users: p.config.PageUsers.Reveal(), Jaeger: p.config.JaegerURL,
	})
	if err != nil {
		return nil, nil, err
	}
	db, err := page.OpenDatabase(ctx, p.config.DatabaseURL.Reveal())
	if err != nil {
		return nil, nil, err
	}
	orderpage.Register(view, orderpage.Dependencies{
		DB: db, Relay: relays, WaitsFor: p.waitsFor,
	})
	return view, db.Close, nil
}

// waitsFor returns what the relay waits for, for the page.
func (p parts) waitsFor() []string {
	if what := p.publishing.WaitsFor(); what != stage.Nothing {
		return []string{what}
	}
	return nil
}

func checkUsers(lines settings.Lines) []error {
	if _, err := users.Parse(lines.Reveal()); err != nil {
		return []error{fmt.Errorf("PAGE_USERS: %w", err)}
	}
	return nil
}

// checkWebURL returns an error if value is neither empty nor the URL of a web server. The URL is
// logged and shown, so it has no password.
func checkWebURL(name, value string) []error {
	u, err := url.Parse(value)
	switch {
	case value == "":
		return nil
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return []error{fmt.Errorf("%s must be a URL that starts with http:// or https://", name)}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return []error{fmt.Errorf("%s must have no user, no query and no fragment", name)}
	default:
		return nil
	}
}
