package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/gate"
)

const (
	dialTimeout   = 5 * time.Second
	heartbeat     = 10 * time.Second
	writeTimeout  = 10 * time.Second // one write to the socket; a blocked broker reads nothing
	answerTimeout = 10 * time.Second // for the broker's answer to a request
	closeTimeout  = 2 * time.Second  // for the broker's answer when the connection is closed
)

// Session is one connection to the broker.
type Session struct {
	conn        *amqp.Connection
	socket      *socket
	publishGate *gate.Gate // closed while the broker blocks its publishers
	watchers    sync.WaitGroup
	consumers   atomic.Int64  // for their tags
	ended       chan struct{} // closed when it is known why the connection is gone
}

func connect(ctx context.Context, c Config) (*Session, error) {
	s := &Session{publishGate: gate.New(), ended: make(chan struct{})}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(c.Name)
	conn, err := amqp.DialConfig(c.URL, amqp.Config{
		Heartbeat:  heartbeat,
		Properties: properties,
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err // not conn: a nil *socket in an interface is not nil
			}
			s.socket = conn
			return conn, nil
		},
	})
	if err != nil {
		return nil, err
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

func (s *Session) noteBlocked(b amqp.Blocking) {
	switch {
	case b.Active && s.publishGate.Close():
		slog.Warn("the broker blocks publishers", "reason", b.Reason)
	case !b.Active && s.publishGate.Open():
		slog.Info("the broker takes messages again")
	}
}

func dial(ctx context.Context, network, address string) (*socket, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// The deadline is for a server that accepts the connection and sends nothing. The client library
	// removes it after the handshake.
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &socket{Conn: conn}, nil
}

// onClose calls end with the reason once the connection is gone.
func (s *Session) onClose(end context.CancelCauseFunc) {
	closed := s.conn.NotifyClose(make(chan *amqp.Error, 1))
	s.watchers.Go(func() {
		defer close(s.ended)
		if reason, ok := <-closed; ok && reason != nil {
			end(s.closeReason(reason))
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

// closeReason distinguishes a message that the client library cannot parse from a broken
// connection. The library reports both as a frame error.
func (s *Session) closeReason(reason *amqp.Error) error {
	if reason.Code == amqp.FrameError && !reason.Server && !s.socket.broken.Load() {
		return fmt.Errorf("%w: %w", ErrUnreadable, reason)
	}
	return fmt.Errorf("the connection closed: %w", reason)
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

// Blocked reports that the broker accepts no messages, because of a memory or disk alarm.
func (s *Session) Blocked() bool { return !s.publishGate.IsOpen() }

// Unblocked returns when the broker accepts messages. It waits only during a memory or disk alarm.
func (s *Session) Unblocked(ctx context.Context) error {
	return s.publishGate.Wait(ctx)
}
