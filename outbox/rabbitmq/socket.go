package rabbitmq

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeld is about how many bytes are held back: a hundred events. So the broker has work while the
// rest of a batch is being written.
const maxHeld = 64 << 10

// socket makes what it reads readable, see frames. It sets a deadline for each write. The client
// library sets none, and ignores contexts while it writes. A publisher can also hold writes back
// while it writes a batch: the library flushes after each message, so each message would cost a
// system call.
type socket struct {
	net.Conn
	frames  *frames
	broken  atomic.Pointer[error] // why the first read or write failed
	mu      sync.Mutex
	holders int    // publishers that are writing a batch
	held    []byte // not yet written, while there are holders
}

func newSocket(conn net.Conn) *socket { return &socket{Conn: conn, frames: newFrames(conn)} }

// Read records when the connection breaks.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.frames.Read(p)
	return n, s.record(err)
}

// record returns the first error of all, because the others are its consequences.
func (s *socket) record(err error) error {
	if err == nil {
		return nil
	}
	s.broken.CompareAndSwap(nil, &err)
	return *s.broken.Load()
}

// Write writes p, or holds it back while there are holders.
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

// hold holds writes back until release. Meanwhile the caller must not wait for an answer: the
// writes of others, such as heartbeats, are held back as well.
func (s *socket) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders++
	return s.release
}

// release writes all held bytes, even if there are other holders, because the caller is about to
// wait for answers.
func (s *socket) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders--
	_ = s.flush() // an error closes the connection
}

func (s *socket) flush() error {
	if len(s.held) == 0 {
		return nil
	}
	_, err := s.write(s.held)
	s.held = s.held[:0]
	return err
}

// write fails after writeTimeout. Then it closes the connection, because what comes next would
// begin in the middle of a frame.
func (s *socket) write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := s.Conn.Write(p)
	if err = s.record(err); err != nil {
		_ = s.Close()
	}
	return n, err
}
