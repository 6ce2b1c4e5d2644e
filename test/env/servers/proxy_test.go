package servers_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"example.com/transactional-outbox/test/env/servers"
)

// TestEachFaultOfTheProxy has one row for each fault. Before the fault, both sides have exchanged a
// message. It says what each side then gets of what the other one sends.
func TestEachFaultOfTheProxy(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin              func(*servers.Proxy)
		toServer, toClient error // nil: it arrives; os.ErrDeadlineExceeded: silence
		afterResume        bool  // what was silent arrives after Resume
		others             error // on a connection that is opened later
	}{
		"none":   {begin: func(*servers.Proxy) {}},
		"cut":    {begin: (*servers.Proxy).Cut, toServer: io.EOF, toClient: io.EOF},
		"reset":  {begin: (*servers.Proxy).Reset, toServer: syscall.ECONNRESET, toClient: syscall.ECONNRESET},
		"freeze": {begin: (*servers.Proxy).Freeze, toServer: os.ErrDeadlineExceeded, toClient: os.ErrDeadlineExceeded},
		"stall": {
			begin: (*servers.Proxy).Stall, toServer: os.ErrDeadlineExceeded, toClient: os.ErrDeadlineExceeded,
			afterResume: true, others: os.ErrDeadlineExceeded,
		},
		"hold replies": {begin: (*servers.Proxy).HoldReplies, toClient: os.ErrDeadlineExceeded, afterResume: true, others: os.ErrDeadlineExceeded},
		"refuse":       {begin: func(p *servers.Proxy) { p.Refuse(true) }, others: io.EOF},
		"slow":         {begin: func(p *servers.Proxy) { p.Slow(time.Millisecond) }},
		"drop a reply": {
			begin: func(p *servers.Proxy) {
				p.DropReply(func(request []byte) bool { return string(request) == "to server" })
			},
			toClient: syscall.ECONNRESET,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, listener := proxyAndListener(t)
			client, server := pair(t, proxy, listener)
			fault.begin(proxy)
			_, sent := io.WriteString(client, "to server")
			expect(t, server, "to server", fault.toServer)
			_, _ = io.WriteString(server, "to client")
			if !errors.Is(sent, syscall.ECONNRESET) { // then the client has already noticed
				expect(t, client, "to client", fault.toClient)
			}
			if fault.afterResume {
				proxy.Resume()
				if fault.toServer != nil {
					expect(t, server, "to server", nil)
				}
				expect(t, client, "to client", nil)
				fault.begin(proxy)
			}
			later, err := net.Dial("tcp", proxy.Addr())
			must(t, err)
			defer func() { _ = later.Close() }()
			go func() {
				if conn, err := listener.Accept(); err == nil {
					_, _ = io.WriteString(conn, "hello")
				}
			}()
			expect(t, later, "hello", fault.others)
			if fault.begin(proxy); proxy.Accepted() != 2 {
				t.Errorf("Accepted is %d, want 2", proxy.Accepted())
			}
		})
	}
}

func TestAProxyOfADeadServerClosesConnections(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", servers.NewProxy(t, servers.FreeAddress(t)).Addr())
	must(t, err)
	defer func() { _ = conn.Close() }()
	expect(t, conn, "x", io.EOF)
}

func proxyAndListener(t *testing.T) (*servers.Proxy, net.Listener) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return servers.NewProxy(t, listener.Addr().String()), listener
}

// pair returns both ends of a connection through a proxy.
func pair(t *testing.T, proxy *servers.Proxy, listener net.Listener) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", proxy.Addr())
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server, err = listener.Accept()
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	_, err = io.WriteString(client, "hello")
	must(t, err)
	expect(t, server, "hello", nil)
	return client, server
}

// expect wants to read a text, or this error. It waits a tenth of a second for silence.
func expect(t *testing.T, conn net.Conn, text string, want error) {
	t.Helper()
	patience := time.Minute
	if errors.Is(want, os.ErrDeadlineExceeded) {
		patience = 100 * time.Millisecond
	}
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, len(text))
	n, err := io.ReadFull(conn, got)
	if !errors.Is(err, want) || want == nil && string(got) != text {
		t.Errorf("read %q, %v; want %q, %v", got[:n], err, text, want)
	}
}
