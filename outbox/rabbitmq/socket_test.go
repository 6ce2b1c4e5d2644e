package rabbitmq

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/publish"
)

var must = dbtest.Must // many lines have it

// wire records each write.
type wire struct {
	net.Conn
	pieces []string
	err    error
	closed bool
}

func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) Close() error { w.closed = true; return nil }

func (w *wire) Write(p []byte) (int, error) {
	w.pieces = append(w.pieces, string(p))
	return len(p), w.err
}

// write sends through s as the client library does.
func write(t *testing.T, s *socket, pieces ...string) {
	t.Helper()
	for _, piece := range pieces {
		if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("wrote %d of %d bytes, error %v", n, len(piece), err)
		}
	}
}

func (w *wire) want(t *testing.T, pieces ...string) {
	t.Helper()
	if !slices.Equal(w.pieces, pieces) {
		t.Errorf("on the wire are %q, want %q", w.pieces, pieces)
	}
}

func TestHeldWritesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	w := &wire{}
	s := newSocket(w)
	write(t, s, "a", "b")
	release := s.hold()
	write(t, s, "c", "d")
	w.want(t, "a", "b")
	release()
	w.want(t, "a", "b", "cd")
	write(t, s, "e")
	w.want(t, "a", "b", "cd", "e")
}

func TestReleaseDoesNotWaitForOtherHolders(t *testing.T) {
	t.Parallel()
	w := &wire{}
	s := newSocket(w)
	one, other := s.hold(), s.hold()
	write(t, s, "a")
	one()
	w.want(t, "a")
	write(t, s, "b")
	w.want(t, "a")
	other()
	w.want(t, "a", "b")
}

func TestNoMoreIsHeldThanTheLimit(t *testing.T) {
	t.Parallel()
	w := &wire{}
	s := newSocket(w)
	defer s.hold()()
	write(t, s, string(make([]byte, maxHeld-1)))
	w.want(t)
	write(t, s, "a")
	w.want(t, string(make([]byte, maxHeld-1))+"a")
	write(t, s, "b")
	w.want(t, string(make([]byte, maxHeld-1))+"a")
}

func TestAReleaseThatCannotWriteEndsTheConnection(t *testing.T) {
	t.Parallel()
	w := &wire{err: errors.New("cut")}
	s := newSocket(w)
	release := s.hold()
	write(t, s, "a")
	release()
	if !w.closed {
		t.Error("what was held is lost, and the connection is open")
	}
}

// counted counts the writes.
type counted struct {
	net.Conn
	writes atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// countingSession opens a session whose writes are counted.
func countingSession(t *testing.T) (*Session, *counted) {
	t.Helper()
	c := &counted{}
	s := &Session{socket: newSocket(c)}
	var err error
	s.conn, err = amqp.DialConfig(brokertest.URL(), amqp.Config{
		Dial: func(network, address string) (_ net.Conn, err error) {
			c.Conn, err = net.DialTimeout(network, address, dialTimeout)
			return s.socket, err
		},
	})
	must(t, err)
	t.Cleanup(s.close)
	return s, c
}

func TestABatchIsNotWrittenMessageByMessage(t *testing.T) {
	t.Parallel()
	s, c := countingSession(t)
	batch := slices.Repeat([]Message{{ID: "a", RoutingKey: "no.such.queue"}}, 100)
	p, err := s.NewPublisher(len(batch))
	must(t, err)
	before := c.writes.Load()
	for _, r := range publish.All(p, batch, time.Minute) {
		if r.Outcome != publish.Returned {
			t.Fatalf("outcome %d (%v)", r.Outcome, r.Err)
		}
	}
	if n := c.writes.Load() - before; n > 5 {
		t.Errorf("%d messages took %d writes", len(batch), n)
	}
}

// TestEachCallerGetsItsOwnAnswers, when many publish at the same time.
func TestEachCallerGetsItsOwnAnswers(t *testing.T) {
	t.Parallel()
	const callers = 100
	s, _ := countingSession(t)
	p, err := s.NewPublisher(callers)
	must(t, err)
	answers := make(chan publish.Outcome, 2*callers)
	for range callers {
		batch := []Message{{RoutingKey: "no.such.queue"}, {RoutingKey: strings.Repeat("k", 256)}}
		go p.Publish(t.Context(), batch, func(i int, r publish.Result) {
			if want := []publish.Outcome{publish.Returned, publish.Invalid}[i]; r.Outcome != want {
				t.Errorf("message %d: %+v, want %d", i, r, want)
			}
			answers <- r.Outcome
		})
	}
	for range cap(answers) {
		<-answers
	}
}
