package servers

import (
	"net/url"
	"testing"
)

// BrokerURLFor returns a broker's URL for a user of deploy/rabbitmq/definitions.json. In the
// demo, the password of each user equals the name.
func BrokerURLFor(user, broker string) string { return withUser(broker, user, user) }

// withUser replaces user and password in a URL. The caller has used the URL, so it is valid.
func withUser(address, user, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// ProxyFor starts a proxy in front of the server of a URL, and returns the URL through the
// proxy. The URL may be of a database, a broker or a mail server.
func ProxyFor(tb testing.TB, direct string) (p *Proxy, through string) {
	tb.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatal(err)
	}
	p = NewProxy(tb, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}
