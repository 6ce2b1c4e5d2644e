package httpserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/internal/httpserver"
)

const getRequest = "GET / HTTP/1.1\r\nHost: api\r\n\r\n"

// TestASlowClientIsCutOff has clients that stop sending or reading. The connection is a pipe in
// this process, so that the time is virtual.
func TestASlowClientIsCutOff(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: api\r\nContent-Length: 2\r\n\r\n"
	for name, test := range map[string]struct {
		sends string
		reads bool // whether it reads the answer
		after time.Duration
	}{
		"before the request":   {"", true, 5 * time.Second},
		"within the headers":   {"GET / HTTP/1.1\r\nHost: a", true, 5 * time.Second},
		"within the body":      {post + "1", true, 10 * time.Second},
		"within the answer":    {getRequest, false, 15 * time.Second},
		"between two requests": {getRequest, true, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				server, client := net.Pipe()
				defer serveOn(t, server, readAndAnswer)()
				if test.sends != "" {
					if _, err := io.WriteString(client, test.sends); err != nil {
						t.Fatal(err)
					}
				}
				if !test.reads {
					time.Sleep(test.after + time.Second)
					if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
						t.Errorf("error %v, want %v", err, io.EOF)
					}
					return
				}
				if _, err := io.Copy(io.Discard, client); err != nil {
					t.Fatal(err)
				}
				if duration := time.Since(start); duration < test.after || duration > test.after+time.Second {
					t.Errorf("cut off after %s, want %s", duration, test.after)
				}
			})
		})
	}
}

func readAndAnswer(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		panic(err)
	}
	_, _ = io.WriteString(w, strings.Repeat("hello", 10_000))
}

func TestP12ARequestThatHangsIsCutOffAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		end := serveOn(t, server, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		if _, err := io.WriteString(client, getRequest); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		end()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("the server ended %s after the signal", took)
		}
	})
}

// serveOn answers on one connection until end is called.
func serveOn(t *testing.T, conn net.Conn, handler http.HandlerFunc) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	listener := &pipeListener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	listener.conns <- conn
	served := make(chan error)
	go func() { served <- httpserver.Serve(ctx, listener, places, handler) }()
	return func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// pipeListener is a listener to which one client connects.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	close(p.closed)
	return nil
}

func (*pipeListener) Addr() net.Addr { return &net.TCPAddr{} }
