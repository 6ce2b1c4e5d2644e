package settings

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/page/users"
)

// Page has the settings of the page at / of OPS_ADDR, and of what its users decide.
type Page struct {
	// PageUsers are the users: lines of name:role:bcrypt-hash. If it is empty, the page is off; in
	// the demo it is on, without a login.
	PageUsers Lines `env:"PAGE_USERS"`
	// PeerOpsURL is OPS_ADDR of the other service, as this process reaches it; empty: the page does
	// not show the numbers of the other service.
	PeerOpsURL string `env:"PEER_OPS_URL"`
	// PeerPageURL is the page of the other service, as a browser reaches it; empty: no links to it.
	PeerPageURL string `env:"PEER_PAGE_URL"`
	// JaegerURL is Jaeger, as a browser reaches it; empty: no links to traces.
	JaegerURL string `env:"JAEGER_URL"`
	// AuditRetention is how long the decisions of operators are kept. At least a day.
	AuditRetention time.Duration `env:"AUDIT_RETENTION" envDefault:"8760h"`
}

const minAuditRetention = 24 * time.Hour

func (p Page) checkPage() []error {
	return slices.Concat(
		checkUsers(p.PageUsers),
		checkWebURL("PEER_OPS_URL", p.PeerOpsURL),
		checkWebURL("PEER_PAGE_URL", p.PeerPageURL),
		checkWebURL("JAEGER_URL", p.JaegerURL),
		AtLeast("AUDIT_RETENTION", p.AuditRetention, minAuditRetention),
	)
}

func checkUsers(lines Lines) []error {
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
