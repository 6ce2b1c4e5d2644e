package servers_test

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers"
)

func TestProxyForwards(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	conn := dial(t, proxy)
	send(t, conn, "hello")
	expect(t, conn, "hello")
	if got := proxy.Accepted(); got != 1 {
		t.Errorf("Accepted is %d, want 1", got)
	}
}

func TestProxyCut(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	conn := connected(t, proxy)
	proxy.Cut()
	expectEnd(t, conn, io.EOF)
	connected(t, proxy) // new connections are not affected
}

func TestProxyReset(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	conn := connected(t, proxy)
	proxy.Reset()
	expectEnd(t, conn, syscall.ECONNRESET)
}

func TestProxyFreezeHidesTheEndOfAConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	proxy := servers.NewProxy(t, listener.Addr().String())
	client, server := pair(t, proxy, listener)
	proxy.Freeze()
	send(t, client, "lost")
	must(t, server.Close())
	expectSilence(t, client) // not even the end is forwarded
	pair(t, proxy, listener) // new connections work
}

// pair returns both ends of a connection through a proxy.
func pair(t *testing.T, proxy *servers.Proxy, listener net.Listener) (client, server net.Conn) {
	t.Helper()
	client = dial(t, proxy)
	server, err := listener.Accept()
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	send(t, client, "hello")
	expect(t, server, "hello")
	return client, server
}

func TestProxyStallKeepsTheData(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	conn := connected(t, proxy)
	proxy.Stall()
	send(t, conn, "held")
	expectSilence(t, conn)
	proxy.Resume()
	expect(t, conn, "held")
}

func TestProxyHoldsOnlyReplies(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	proxy := servers.NewProxy(t, listener.Addr().String())
	client, server := pair(t, proxy, listener)
	proxy.HoldReplies()
	send(t, client, "request")
	expect(t, server, "request")
	send(t, server, "reply")
	expectSilence(t, client)
	proxy.Resume()
	expect(t, client, "reply")
}

func TestProxyFreezeSparesNewConnections(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	conn := connected(t, proxy)
	proxy.Freeze()
	send(t, conn, "lost")
	expectSilence(t, conn)
	connected(t, proxy)
}

func TestProxyCutsStalledConnections(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	conn := connected(t, proxy)
	proxy.Stall()
	send(t, conn, "lost")
	proxy.Cut()
	// TCP closes with an RST if there are unread bytes, and otherwise with a FIN.
	expectEnd(t, conn, io.EOF, syscall.ECONNRESET)
}

func TestProxyRefuse(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	proxy.Refuse(true)
	expectEnd(t, dial(t, proxy), io.EOF)
	proxy.Refuse(false)
	connected(t, proxy)
	if got := proxy.Accepted(); got != 2 {
		t.Errorf("Accepted is %d, want 2: the refused one counts", got)
	}
}

func TestProxyToDeadTarget(t *testing.T) {
	expectEnd(t, dial(t, servers.NewProxy(t, servers.FreeAddress(t))), io.EOF)
}

// echoServer sends back what it receives, until the test ends.
func echoServer(t *testing.T) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, proxy *servers.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	return conn
}

// connected returns a connection on which the echo server has answered.
func connected(t *testing.T, proxy *servers.Proxy) net.Conn {
	t.Helper()
	conn := dial(t, proxy)
	send(t, conn, "ping")
	expect(t, conn, "ping")
	return conn
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	must(t, err)
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	must(t, err)
	if string(got) != want {
		t.Errorf("received %q, want %q", got, want)
	}
}

func expectEnd(t *testing.T, conn net.Conn, want ...error) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
		t.Errorf("reading gave %v, want one of %v", err, want)
	}
}

func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v, from a stalled connection", n, err)
	}
	must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
}

func TestProxySlow(t *testing.T) {
	const delay = 100 * time.Millisecond
	proxy := servers.NewProxy(t, echoServer(t))
	conn := connected(t, proxy)
	proxy.Slow(delay)
	began := time.Now()
	send(t, conn, "there and back")
	expect(t, conn, "there and back")
	if took := time.Since(began); took < 2*delay {
		t.Errorf("it took %s, want at least %s", took, 2*delay)
	}
}

func TestProxyDropReply(t *testing.T) {
	proxy := servers.NewProxy(t, echoServer(t))
	conn := connected(t, proxy)
	proxy.DropReply(func(request []byte) bool { return string(request) == "commit" })
	send(t, conn, "other")
	expect(t, conn, "other")
	send(t, conn, "commit")
	expectEnd(t, conn, syscall.ECONNRESET)
	if got := proxy.Dropped(); got != 1 {
		t.Errorf("Dropped is %d, want 1", got)
	}
}
