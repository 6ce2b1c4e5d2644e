package rabbitmq

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

const (
	// dialTimeout bounds the attempt at one node: the connection, TLS and the AMQP handshake. An
	// attempt at all nodes takes at most this time for each of them.
	dialTimeout   = 5 * time.Second
	heartbeat     = 10 * time.Second
	writeTimeout  = 10 * time.Second // one write to the socket; a blocked broker reads nothing
	answerTimeout = 10 * time.Second // for the broker's answer to a request
	closeTimeout  = 2 * time.Second  // for the broker's answer when the connection is closed
)

// Session is one connection to the broker.
type Session struct {
	host      string // of the node
	logger    *slog.Logger
	conn      *amqp.Connection
	socket    *socket
	blocked   atomic.Bool // the broker blocks its publishers
	watchers  sync.WaitGroup
	consumers atomic.Int64  // for their tags
	ended     chan struct{} // closed when it is known why the connection is gone
}

// connect tries the nodes of the URL in random order, so that connections spread over them. It
// returns the first session that it gets. Every error leads to the next node, also a refused
// login: a node that is starting or has no majority may refuse what another one takes.
func connect(ctx context.Context, c Config) (*Session, error) {
	url := c.URL
	if c.FreshURL != nil {
		fresh, err := c.FreshURL()
		if err != nil {
			return nil, fmt.Errorf("reading the broker's URL: %w", err)
		}
		url = fresh
	}
	nodes, err := amqpurl.Split(url)
	if err != nil {
		return nil, fmt.Errorf("the broker's URL %w", err)
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] }) //nolint:gosec // not a secret
	return connectToFirst(ctx, c, nodes)
}

func connectToFirst(ctx context.Context, c Config, nodes []amqpurl.Node) (*Session, error) {
	var errs []error
	for i, node := range nodes {
		s, err := connectTo(ctx, c, node)
		if err == nil {
			return s, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", node.Host, err))
		if ctx.Err() != nil {
			break
		}
		if i < len(nodes)-1 {
			c.logger().WarnContext(ctx, "no connection with this broker, trying the next", "connection", c.Name, "host", node.Host, "error", err)
		}
	}
	return nil, errors.Join(errs...)
}

// errNoAnswer says which limit has ended an attempt.
var errNoAnswer = fmt.Errorf("no connection within %s", dialTimeout)

// connectTo ends after dialTimeout, also at a node that takes the login and then sends nothing but
// heartbeats. A deadline on the socket is not enough: the client library moves it with each frame.
func connectTo(ctx context.Context, c Config, node amqpurl.Node) (*Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errNoAnswer)
	defer cancel()
	s := &Session{host: node.Host, logger: c.logger(), ended: make(chan struct{})}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(c.Name)
	stop := func() bool { return true }
	conn, err := amqp.DialConfig(strings.Replace(node.URL, "amqps://", "amqp://", 1), amqp.Config{ // see secured
		Heartbeat:  heartbeat,
		Properties: properties,
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address, node.URL)
			if err != nil {
				return nil, err // not conn: a nil *socket in an interface is not nil
			}
			s.socket = conn
			stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // the handshake does not look at ctx
			return conn, nil
		},
	})
	if stopped := !stop(); stopped || err != nil {
		s.abandon()
		return nil, errors.Join(context.Cause(ctx), err)
	}
	s.conn = conn
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	s.watchers.Go(func() {
		for b := range blocked {
			s.noteBlocked(b)
		}
	})
	return s, nil
}

// abandon closes a connection that did not come about. The client library leaves it open when it
// knows none of the node's ways to log in.
func (s *Session) abandon() {
	if s.socket != nil {
		_ = s.socket.Close()
	}
}

func dial(ctx context.Context, network, address, url string) (*socket, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secure, err := secured(ctx, conn, url)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return newSocket(secure), nil
}

// secured completes the TLS handshake for an amqps URL, with the files that it names. The client
// library would do so above the socket, and the socket could not read the frames. The URL has one
// host, and the certificate must be of that host.
func secured(ctx context.Context, conn net.Conn, url string) (net.Conn, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil || uri.Scheme != "amqps" {
		return conn, err
	}
	config := &tls.Config{ServerName: cmp.Or(uri.ServerName, uri.Host), MinVersion: tls.VersionTLS12}
	if uri.CACertFile != "" {
		authorities, err := os.ReadFile(uri.CACertFile)
		if err != nil {
			return nil, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("%s has no certificate", uri.CACertFile)
		}
	}
	if uri.CertFile != "" && uri.KeyFile != "" {
		own, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	client := tls.Client(conn, config)
	return client, client.HandshakeContext(ctx)
}

// onClose calls end with the reason once the connection is gone.
func (s *Session) onClose(end context.CancelCauseFunc) {
	closed := s.conn.NotifyClose(make(chan *amqp.Error, 1))
	s.watchers.Go(func() {
		defer close(s.ended)
		if reason, ok := <-closed; ok && reason != nil {
			end(fmt.Errorf("the connection closed: %w", reason))
			return
		}
		end(errors.New("the connection closed"))
	})
}

// awaitReason waits, if the connection is closed, until the session's context has the reason. The
// client library ends everything else at the same time, so without it the reason may come later.
func (s *Session) awaitReason() {
	if s.conn.IsClosed() {
		<-s.ended
	}
}

// noteBlocked records what the broker says. It may say the same twice.
func (s *Session) noteBlocked(b amqp.Blocking) {
	if s.blocked.Swap(b.Active) == b.Active {
		return
	}
	if b.Active {
		s.logger.Warn("the broker blocks publishers", "reason", b.Reason)
	} else {
		s.logger.Info("the broker takes messages again")
	}
}

// Blocked reports that the broker accepts no messages, because of a memory or disk alarm.
func (s *Session) Blocked() bool { return s.blocked.Load() }

// unblockedPoll is little beside an alarm, which lasts seconds at least.
const unblockedPoll = 50 * time.Millisecond

// Unblocked returns when the broker accepts messages. It waits only during a memory or disk alarm,
// and until the connection ends.
func (s *Session) Unblocked(ctx context.Context) error {
	for s.Blocked() {
		select {
		case <-time.After(unblockedPoll):
		case <-s.ended:
			return amqp.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// closeAfter closes the socket, and so ends the session, unless stop is called within the limit.
// A blocked broker answers nothing and keeps the connection open, and the client library waits for
// its answers without a limit.
func (s *Session) closeAfter(limit time.Duration) (stop func() bool) {
	return time.AfterFunc(limit, func() { _ = s.socket.Close() }).Stop
}

// close closes the connection, and waits for the session's goroutines.
func (s *Session) close() {
	defer s.closeAfter(closeTimeout)()
	_ = s.conn.Close()
	s.watchers.Wait()
}
