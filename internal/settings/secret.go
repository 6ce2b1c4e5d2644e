package settings

import (
	"net/url"
	"strings"

	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

// Secret is a value that may contain a password. It prints as a URL without the password.
type Secret string

// Reveal returns the value with its password.
func (s Secret) Reveal() string { return string(s) }

// String masks the password.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	nodes, err := amqpurl.Split(string(s))
	if err == nil && len(nodes) > 1 { // the standard library cannot read every list of hosts
		return Secret(nodes[0].URL).withHosts(nodes)
	}
	u, err := url.Parse(string(s))
	// An @ after the host belongs to a password with a character that is not escaped.
	if err != nil || u.Host == "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return mask
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(name, "password") {
			query.Set(name, mask)
		}
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}

// withHosts masks the password, and names all hosts.
func (s Secret) withHosts(nodes []amqpurl.Node) string {
	u, err := url.Parse(s.String())
	if err != nil {
		return mask
	}
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, n.Host)
	}
	u.Host = strings.Join(hosts, ",")
	return u.String()
}

const mask = "xxxxx" // as in [url.URL.Redacted]

// GoString masks the password in %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText masks the password in logs, and in JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
