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
	answerTimeout = 10 * time.Second // for the broker's answers to what we ask of it
	closeTimeout  = 2 * time.Second  // for the broker's answer to our goodbye
)

// Session is one connection to the broker.
type Session struct {
	conn      *amqp.Connection
	socket    *socket
	gate      *gate.Gate // closed while the broker blocks its publishers
	watchers  sync.WaitGroup
	consumers atomic.Int64  // for their tags
	ended     chan struct{} // closed when it is known why the connection is gone
}

func connect(ctx context.Context, c Config) (*Session, error) {
	s := &Session{gate: gate.New(), ended: make(chan struct{})}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(c.Name)
	conn, err := amqp.DialConfig(c.URL, amqp.Config{
		Heartbeat:  heartbeat,
		Properties: properties,
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err // not conn, which is nil: as an interface it would not be
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
	case b.Active && s.gate.Close():
		slog.Warn("the broker blocks publishers", "reason", b.Reason)
	case !b.Active && s.gate.Open():
		slog.Info("the broker takes messages again")
	}
}

func dial(ctx context.Context, network, address string) (*socket, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// Until the handshake is done: a server that accepts and says nothing. The
	// client library lifts it.
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

// awaitReason waits until the session's context says why the connection is gone, if it is.
// The client library ends everything else at the same time.
func (s *Session) awaitReason() {
	if s.conn.IsClosed() {
		<-s.ended
	}
}

// closeReason tells a message that the client library cannot read from a connection that
// breaks: the library calls both a frame error.
func (s *Session) closeReason(reason *amqp.Error) error {
	if reason.Code == amqp.FrameError && !reason.Server && !s.socket.broken.Load() {
		return fmt.Errorf("%w: %w", ErrUnreadable, reason)
	}
	return fmt.Errorf("the connection closed: %w", reason)
}

// breakAfter closes the socket, and with it the session, unless it is stopped in
// time. A blocked broker answers nothing and keeps the connection alive, and the
// client library waits for its answers without a limit.
func (s *Session) breakAfter(limit time.Duration) (stop func() bool) {
	return time.AfterFunc(limit, func() { _ = s.socket.Close() }).Stop
}

// close says goodbye.
func (s *Session) close() {
	defer s.breakAfter(closeTimeout)()
	_ = s.conn.Close()
	s.watchers.Wait()
}

// Unblocked waits until the broker takes messages: not at all, or until its memory
// or disk alarm is over.
func (s *Session) Unblocked(ctx context.Context) error {
	return s.gate.Wait(ctx)
}
