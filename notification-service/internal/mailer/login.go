package mailer

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/wneessen/go-mail/smtp"
)

// helo is what the service calls itself over a connection (RFC 5321, section 4.1.3).
func (d *Destination) helo(conn net.Conn) string {
	name, _ := os.Hostname()
	address, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	switch {
	case d.Helo != "":
		return d.Helo
	case strings.Contains(name, "."):
		return name
	case strings.Contains(address, ":"):
		return "[IPv6:" + address + "]"
	}
	return "[" + address + "]"
}

// freshLogin returns the login for a new connection. If the first URL has none, there is none: TLS may
// be missing.
func (d *Destination) freshLogin() (*url.Userinfo, error) {
	if d.login == nil || d.FreshURL == nil {
		return d.login, nil
	}
	fresh, err := d.FreshURL()
	if u, wrong := url.Parse(fresh); err == nil && wrong == nil && u.User != nil {
		return u.User, nil
	}
	// The error of Parse has the password.
	return nil, cmp.Or(err, errors.New("the mail server's URL, read again, has no user and password"))
}

// login is a login over TLS, for one connection. It tries one mechanism that the server offers, and
// no other if that is refused: wrong tries may lock the account. PLAIN comes first, because some
// servers offer CRAM-MD5 and cannot do it.
type login struct {
	smtp.Auth
	host string
	as   *url.Userinfo
}

// Start begins the login.
func (l *login) Start(server *smtp.ServerInfo) (mechanism string, first []byte, err error) {
	user := l.as.Username()
	password, _ := l.as.Password()
	for _, one := range []struct {
		name string
		auth smtp.Auth
	}{
		{"PLAIN", smtp.PlainAuth("", user, password, l.host, false)},
		{"LOGIN", smtp.LoginAuth(user, password, l.host, false)},
		{"CRAM-MD5", smtp.CRAMMD5Auth(user, password)},
	} {
		if slices.Contains(server.Auth, one.name) {
			server.TLS = true // there is no login without TLS, but go-mail does not see that of STARTTLS
			l.Auth = one.auth
			return l.Auth.Start(server)
		}
	}
	return "", nil, errors.New("the server offers no login with PLAIN, LOGIN or CRAM-MD5")
}
