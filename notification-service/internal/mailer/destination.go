// Package mailer is the mail server as a destination of a relay. All sessions share one pool of
// connections. A message waits there for its turn; then its e-mail is composed and sent:
//
//	Publish ─► pool.take ─► compose ─► transaction ─► outcome ─► pool.put ─► answer
//
//	transaction: MAIL ─► RCPT ─► DATA ─► the text ─► the dot ─► accepted
//	             └─ the server does not have it ─┘   └─ it may have it
//
// It does not guess whose fault a failure is, and the relay decides when to try again. Only if the
// first connection breaks before the dot, the e-mail is sent again at once over another one.
package mailer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/outbox/publish"
)

// Config says where e-mails go, and what they are.
type Config struct {
	// URL is smtp://[user:password@]host[:port] or smtps://…. The default port is 587, or 465 for
	// smtps. The password is sent over TLS only. Without one, STARTTLS is used if it is offered.
	// The URL "log:" sends nothing, and logs what it would have sent.
	URL string
	// FreshURL is asked for user and password at each new connection, if it is set: they may have changed.
	FreshURL func() (string, error)
	From     string // an address and nothing else
	// Helo is what the service calls itself in EHLO. The default is the machine's name if it has a dot,
	// and otherwise its address: some servers refuse a name without a dot.
	Helo        string
	Connections int // at most, and at least one
	// Compose returns the e-mail of a message. It is called each time that the message is sent.
	Compose func(publish.Message) (Email, error)
	Logger  *slog.Logger // default: slog.Default()
}

// Destination is a mail server. It is a [publish.Destination].
type Destination struct {
	Config
	host, address string // address has the port too
	tls           *tls.Config
	tlsFirst      bool          // before the greeting
	login         *url.Userinfo // nil: none
	limits        limits
	pool          *pool        // nil: e-mails are only logged
	logged        atomic.Int64 // when an outage was last logged
	lastError     atomic.Pointer[error]
}

// New returns a destination that connects when it is used, or an error if the settings cannot work.
func New(c Config) (*Destination, error) {
	from, err := sendable(c.From)
	if err != nil || c.Compose == nil {
		return nil, errors.New("mailer: New needs a sender that is an e-mail address, and Compose")
	}
	c.From, c.Connections, c.Logger = from, max(c.Connections, 1), cmp.Or(c.Logger, slog.Default())
	d := &Destination{Config: c, limits: standardLimits, address: "log"}
	if strings.EqualFold(c.URL, "log:") {
		return d, nil
	}
	d.pool = newPool(d)
	if err := d.parseURL(); err != nil {
		return nil, fmt.Errorf("the mail server's URL %w", err)
	}
	return d, nil
}

func (d *Destination) parseURL() error {
	u, err := url.Parse(d.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return errors.New("must be like smtp://user:password@mail.example.com:587")
	}
	d.tlsFirst = u.Scheme == "smtps"
	port := cmp.Or(u.Port(), map[bool]string{false: "587", true: "465"}[d.tlsFirst])
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("has the port %q, which is not between 1 and 65535", port)
	}
	d.host, d.address = u.Hostname(), net.JoinHostPort(u.Hostname(), port)
	d.tls = &tls.Config{ServerName: d.host, MinVersion: tls.VersionTLS12}
	password, _ := u.User.Password()
	switch {
	case (u.User.Username() == "") != (password == ""):
		return errors.New("has a user name or a password without the other")
	case password != "":
		d.login = u.User
	}
	return nil
}

// System is the protocol.
func (*Destination) System() string { return "smtp" }

// Name is the server's host and port.
func (d *Destination) Name() string { return d.address }

// KeepConnected calls use when a connection is open and logged in. The context of use ends when no
// connection works any more and no other can be opened.
func (d *Destination) KeepConnected(ctx context.Context, use func(context.Context, publish.Session) error) error {
	if d.pool == nil {
		return publish.Func(d.log, publish.FuncConfig{OneDestination: true, Calls: 1}).KeepConnected(ctx, use)
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 250*time.Millisecond, maxPause
	for ctx.Err() == nil {
		err := d.session(ctx, pause.Reset, use)
		d.lastError.Store(&err)
		now, last := time.Now().UnixNano(), d.logged.Load()
		if ctx.Err() == nil && now-last >= int64(maxPause) && d.logged.CompareAndSwap(last, now) {
			d.Logger.WarnContext(ctx, "no session with the mail server, trying again", "server", d.address, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
	return nil
}

// LastError returns why the last session ended, or did not begin. The relay's Health shows it.
func (d *Destination) LastError() error {
	if err := d.lastError.Load(); err != nil {
		return *err
	}
	return nil
}

// maxPause is between attempts to get a session, and between two lines about them in the log.
const maxPause = 10 * time.Second

// session runs use, and calls reached before.
func (d *Destination) session(ctx context.Context, reached func(), use func(context.Context, publish.Session) error) error {
	lost, open, leave := d.pool.join()
	defer leave()
	select {
	case <-ctx.Done():
	case <-open.Done():
	}
	if ctx.Err() != nil || lost.Err() != nil {
		return context.Cause(lost) //nolint:contextcheck // the session ends with the pool's connections
	}
	reached()
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(lost, end)()                           //nolint:contextcheck // the same
	return cmp.Or(use(ctx, session{d, lost}), context.Cause(lost)) //nolint:contextcheck // the same
}

// session has no connection of its own.
type session struct {
	*Destination
	lost context.Context //nolint:containedctx // it ends with the session
}

// Blocked is false: a mail server does not ask its clients to wait.
func (session) Blocked() bool { return false }

// OneByOne says that a slow e-mail holds no other one back.
func (session) OneByOne() {}

// NewPublisher returns a publisher that uses the connections of all.
func (s session) NewPublisher(int) (publish.Publisher, error) {
	p := &publisher{Destination: s.Destination}
	p.open, p.shut = context.WithCancel(s.lost)
	return p, nil
}
