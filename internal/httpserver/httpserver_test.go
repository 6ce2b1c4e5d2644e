package httpserver_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen opens a port that no other process uses during the test. So a test can check that the
// port is closed.
func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := httpserver.Listen(t.Context(), "HTTP_ADDR", servers.FreeAddress(t))
	check.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// get opens a new connection and closes it, so that no connection is left open.
func get(t *testing.T, url string, header ...string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check.Must(t, err)
	request.Close = true
	if header != nil {
		request.Header.Set(header[0], header[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// places is how many connections the servers of the tests accept.
const places = 8

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

func TestServeAnswersRequestsInFlightBeforeItReturns(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-finish
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		hello(w, r)
	})
	listener := listen(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	served, answered := make(chan error, 1), make(chan struct{})
	go func() { served <- httpserver.Serve(ctx, listener, places, slow) }()
	go func() {
		defer close(answered)
		status, body, err := get(t, "http://"+listener.Addr().String())
		if err != nil || status != http.StatusOK || body != "hello" {
			t.Errorf("the request in flight got %d %q, error %v", status, body, err)
		}
	}()

	<-arrived
	end()
	awaitClosed(t, listener.Addr().String())
	select {
	case err := <-served:
		t.Errorf("Serve returned with a request in flight: %v", err)
		served <- err
	default:
	}
	close(finish)
	<-answered
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// awaitClosed returns when nobody accepts connections at the address any more.
func awaitClosed(t *testing.T, address string) {
	t.Helper()
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func TestServeReportsAListenerThatFails(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	check.Must(t, listener.Close())
	err := httpserver.Serve(t.Context(), listener, places, hello)
	if !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("error %v, want %v and the address", err, net.ErrClosed)
	}
}

func TestAnEndlessHeaderIsRefused(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- httpserver.Serve(ctx, listener, places, hello) }()
	for size, want := range map[int]int{8 << 10: http.StatusOK, 32 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		status, _, err := get(t, "http://"+listener.Addr().String(), "X-Long", strings.Repeat("x", size))
		if err != nil || status != want {
			t.Errorf("a header of %d bytes: status %d, error %v; want %d", size, status, err, want)
		}
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestIdleClientsLeavePlacesForOthers has one client that opens more connections than there are
// places, and keeps each open after its answer. It is done when all of them are answered.
func TestIdleClientsLeavePlacesForOthers(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- httpserver.Serve(ctx, listener, places, hello) }()
	connect := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		check.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		// Before the server closes an idle one in any case.
		check.Must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		return conn
	}

	var idle []net.Conn
	for range places / 2 {
		idle = append(idle, connect())
		check.Must(t, ask(idle[len(idle)-1]))
	}
	for _, conn := range idle {
		if err := ask(conn); err != nil {
			t.Errorf("with half of the places taken, an idle connection was closed: %v", err)
		}
	}
	for n := range 2 * places {
		if err := ask(connect()); err != nil {
			t.Fatalf("with %d idle connections, another client got no answer: %v", len(idle)+n, err)
		}
	}
	// The idle ones are closed, so that connections are kept again, once the server has noticed it.
	for conn := connect(); errors.Join(ask(conn), ask(conn)) != nil; {
		conn = connect()
	}
	end()
	check.Must(t, <-served)
}

// ask sends a request on an open connection, and reads the answer.
func ask(conn net.Conn) error {
	if _, err := io.WriteString(conn, getRequest); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

func TestTheErrorOfAPortInUseNamesItsSetting(t *testing.T) {
	t.Parallel()
	taken := listen(t).Addr().String()
	_, err := httpserver.Listen(t.Context(), "HTTP_ADDR", taken)
	if err == nil || !strings.HasPrefix(err.Error(), "HTTP_ADDR: ") || !strings.Contains(err.Error(), taken) {
		t.Errorf("error %v does not name setting and address", err)
	}
	err = httpserver.ServeDuring(t.Context(), "OPS_ADDR", taken, hello, func(context.Context) error {
		t.Error("the work started")
		return nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "OPS_ADDR: ") {
		t.Errorf("error %v does not name the setting", err)
	}
}

func TestServeDuringAnswersUntilTheWorkIsDone(t *testing.T) {
	t.Parallel()
	failure := errors.New("the work failed")
	for _, want := range []error{nil, failure} {
		address := servers.FreeAddress(t)
		ctx, end := context.WithCancel(t.Context())
		err := httpserver.ServeDuring(ctx, "OPS_ADDR", address, hello, func(ctx context.Context) error {
			end()
			<-ctx.Done()
			// The work drains. The operator's endpoints still answer.
			if status, _, err := get(t, "http://"+address); err != nil || status != http.StatusOK {
				t.Errorf("while the work drains: status %d, error %v", status, err)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		awaitClosed(t, address)
	}
}
