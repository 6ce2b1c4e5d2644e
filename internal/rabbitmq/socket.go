package rabbitmq

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeld is about how much is held back at most: a hundred events, so that the broker
// has work while the rest of a batch is being written.
const maxHeld = 64 << 10

// socket gives each write a deadline: the client library has none, and ignores
// contexts once it writes. And it lets a publisher hold writes back while it writes a
// batch: the library flushes after each message, and so makes a system call of each.
type socket struct {
	net.Conn
	broken  atomic.Bool // nothing can be read any more
	mu      sync.Mutex
	holders int    // publishers that are writing a batch
	held    []byte // not yet written, while there are holders
}

// Read notes when the connection breaks.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil {
		s.broken.Store(true)
	}
	return n, err
}

// Write writes p, or keeps it for as long as somebody holds.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == 0 {
		return s.write(p)
	}
	s.held = append(s.held, p...)
	if len(s.held) < maxHeld {
		return len(p), nil
	}
	return len(p), s.flush()
}

// hold keeps back what is written until release. Between the two nobody may wait for
// an answer: what others write meanwhile, heartbeats too, is kept back as well.
func (s *socket) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders++
	return s.release
}

// release writes all that is held, whoever else holds on: the one who releases is
// about to wait. The library learns of a failure by the end of the connection.
func (s *socket) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders--
	if s.flush() != nil {
		_ = s.Close()
	}
}

func (s *socket) flush() error {
	if len(s.held) == 0 {
		return nil
	}
	_, err := s.write(s.held)
	s.held = s.held[:0]
	return err
}

// write fails after writeTimeout.
func (s *socket) write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(p)
}
