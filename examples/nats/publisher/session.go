package publisher

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"example.com/transactional-outbox/outbox/publish"
)

const (
	dialTimeout  = 5 * time.Second
	pingInterval = 10 * time.Second
	maxPings     = 2                // a server that misses so many is away
	writeTimeout = 10 * time.Second // one write to the socket
)

// Config is how to connect.
type Config struct {
	URL         string // nats://user:password@host:port, several with commas between them
	Credentials string // path of a .creds file; may be empty
	Name        string // which the server shows for this connection
	Subject     string // the first part of the subject of messages that name no destination
}

// Session is one connection to a server.
type Session struct {
	conn    *nats.Conn
	subject string        // of messages without a destination
	ended   chan struct{} // closed with the connection
	mu      sync.Mutex
	cause   error // the first error, which ended the session
}

var errClosed = errors.New("it is closed")

// Connect opens a session. Close it after its use.
func Connect(c Config) (*Session, error) {
	s := &Session{subject: c.Subject, ended: make(chan struct{})}
	options := []nats.Option{
		nats.Name(c.Name), nats.Timeout(dialTimeout), nats.FlusherTimeout(writeTimeout),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
		// Without reconnects, nothing is sent after the connection has closed.
		nats.NoReconnect(), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.fail(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.note(err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(s.ended) }),
	}
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	conn, err := nats.Connect(c.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	s.conn = conn
	return s, nil
}

// fail ends the session after an asynchronous error. The library does not say which message caused
// it: this user may not publish one, or a write failed half-way, which breaks the connection.
func (s *Session) fail(err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		err = fmt.Errorf("%w: %w", publish.ErrClosed, err)
	}
	s.note(err)
	s.Close()
}

func (s *Session) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil && err != nil {
		s.cause = fmt.Errorf("the connection closed: %w", err)
	}
}

// reason is why the session ended.
func (s *Session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return errClosed
	}
	return s.cause
}

// Close closes the connection. What the server has not answered stays Unknown.
func (s *Session) Close() { s.conn.Close() }

// Blocked is false: NATS never asks publishers to wait. A stream that is full refuses.
func (s *Session) Blocked() bool { return false }

// NewPublisher returns a publisher.
func (s *Session) NewPublisher(int) (publish.Publisher, error) {
	select {
	case <-s.ended:
		return nil, s.reason()
	default:
		return newPublisher(s)
	}
}
