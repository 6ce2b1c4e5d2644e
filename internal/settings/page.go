package settings

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
)

// Page has the settings of the operators' page.
type Page struct {
	// PageUsersFile names those who may use the page, with bcrypt hashes of their passwords, as
	// basic_auth_users of Prometheus' web configuration does. It is read at each request. If it is
	// empty, the page is off; in the demo it is on, without a login.
	PageUsersFile string `env:"PAGE_USERS_FILE"`
	// PageOperators are the users who may also decide, separated by commas.
	PageOperators []string `env:"PAGE_OPERATORS"`
	// PageProxies are the proxies that say who their client is, in X-Forwarded-For: networks that have
	// nobody else, such as 10.0.0.7/32, separated by commas.
	PageProxies []netip.Prefix `env:"PAGE_PROXIES"`
	// JaegerURL is Jaeger, as a browser reaches it; empty: the page has no links to traces.
	JaegerURL string `env:"JAEGER_URL"`
	// RunbookURL is docs/runbook.md, as a browser reaches it; empty: the page names the chapters.
	RunbookURL string `env:"RUNBOOK_URL"`
}

// CheckPage returns what is wrong. It does not read the users' file: the file may change while the
// service runs, so a mistake in it must not stop the next start either.
func (p Page) CheckPage() []error {
	return slices.Concat(checkWebURL("JAEGER_URL", p.JaegerURL), checkWebURL("RUNBOOK_URL", p.RunbookURL))
}

// maxCost is of a bcrypt hash: each step doubles the time. With more, one login takes seconds.
const maxCost = 12

// Users reads the file. Its errors name the user, and never show a hash.
func (p Page) Users() (map[string]string, error) {
	text, err := os.ReadFile(p.PageUsersFile)
	if err != nil {
		return nil, fmt.Errorf("PAGE_USERS_FILE: %w", err)
	}
	var file struct {
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if yaml.Unmarshal(text, &file) != nil || len(file.Users) == 0 {
		return nil, fmt.Errorf("PAGE_USERS_FILE: %s needs basic_auth_users, with a bcrypt hash for each name", p.PageUsersFile)
	}
	for name, hash := range file.Users {
		if cost, err := bcrypt.Cost([]byte(hash)); err != nil || cost > maxCost {
			return nil, fmt.Errorf("PAGE_USERS_FILE: the hash of %q is not of bcrypt, or its cost is above %d: make one with htpasswd -nBC 10 NAME", name, maxCost)
		}
	}
	return file.Users, nil
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
