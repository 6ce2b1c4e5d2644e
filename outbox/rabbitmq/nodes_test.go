package rabbitmq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

// nodesTest is a test with a broker that has several addresses.
type nodesTest struct {
	*testing.T
	url *url.URL
}

func newNodesTest(t *testing.T) nodesTest {
	t.Helper()
	u, err := url.Parse(brokertest.URL())
	must(t, err)
	return nodesTest{t, u}
}

// node returns the broker as a node with this address.
func (n nodesTest) node(host string) amqpurl.Node {
	u := *n.url
	u.Host = host
	return amqpurl.Node{Host: host, URL: u.String()}
}

// toBroker returns a node with an address of its own, behind which is the broker. answer forwards
// what the broker says.
func (n nodesTest) toBroker(answer func(to, from net.Conn)) amqpurl.Node {
	return n.listen(func(c net.Conn) {
		broker, err := (&net.Dialer{}).DialContext(n.Context(), "tcp", n.url.Host)
		if err != nil {
			n.Error(err)
			return
		}
		var forwarding sync.WaitGroup
		end := func() { _ = errors.Join(c.Close(), broker.Close()) }
		n.Cleanup(func() { end(); forwarding.Wait() })
		forwarding.Go(func() { defer end(); _, _ = io.Copy(broker, c) })
		forwarding.Go(func() { defer end(); answer(c, broker) })
	})
}

// good returns a node that works.
func (n nodesTest) good() amqpurl.Node {
	return n.toBroker(func(to, from net.Conn) { _, _ = io.Copy(to, from) })
}

// dead returns a node at which nothing listens.
func (n nodesTest) dead() amqpurl.Node {
	n.Helper()
	listener, err := (&net.ListenConfig{}).Listen(n.Context(), "tcp", "127.0.0.1:0")
	must(n, err)
	defer func() { _ = listener.Close() }()
	return n.node(listener.Addr().String())
}

// closing returns a node that closes each connection after it has sent some bytes.
func (n nodesTest) closing(answer string) amqpurl.Node {
	return n.listen(func(c net.Conn) {
		_, _ = c.Read(make([]byte, 8)) // AMQP's first bytes
		_, _ = c.Write([]byte(answer))
		_ = c.Close()
	})
}

// silent returns a node that takes connections and never answers.
func (n nodesTest) silent() amqpurl.Node {
	return n.listen(func(c net.Conn) {
		n.Cleanup(func() { _ = c.Close() })
	})
}

// halfOpen returns a node that takes the login and never answers the opening of the virtual host,
// like one whose authorization backend hangs. Meanwhile it sends heartbeats.
func (n nodesTest) halfOpen() amqpurl.Node {
	return n.toBroker(func(to, from net.Conn) {
		for range 2 { // connection.start and connection.tune
			if !forwardFrame(to, from) {
				return
			}
		}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for range tick.C {
			if _, err := to.Write([]byte("\x08\x00\x00\x00\x00\x00\x00\xce")); err != nil || n.Context().Err() != nil {
				return
			}
		}
	})
}

// forwardFrame forwards one frame of AMQP: 7 bytes, of which the last four are the size of the
// payload, the payload, and one byte.
func forwardFrame(to io.Writer, from io.Reader) bool {
	var header [7]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return false
	}
	if _, err := to.Write(header[:]); err != nil {
		return false
	}
	_, err := io.CopyN(to, from, int64(binary.BigEndian.Uint32(header[3:]))+1)
	return err == nil
}

func (n nodesTest) listen(serve func(net.Conn)) amqpurl.Node {
	n.Helper()
	listener, err := (&net.ListenConfig{}).Listen(n.Context(), "tcp", "127.0.0.1:0")
	must(n, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
	n.Cleanup(func() { _ = listener.Close(); <-ended })
	return n.node(listener.Addr().String())
}

// with returns a node that works, with another user or virtual host in its URL.
func (n nodesTest) with(change func(*url.URL)) amqpurl.Node {
	node := n.good()
	u := *n.url
	u.Host = node.Host
	change(&u)
	return amqpurl.Node{Host: node.Host, URL: u.String()}
}

func (n nodesTest) wrongPassword() amqpurl.Node {
	return n.with(func(u *url.URL) { u.User = url.UserPassword("guest", "wrong-secret") })
}

func (n nodesTest) wrongVhost() amqpurl.Node {
	return n.with(func(u *url.URL) { u.Path = "/no-such-vhost" })
}

// TestTheNextNodeIsTriedInTheSameAttempt: every error of one node leads to the next one.
func TestTheNextNodeIsTriedInTheSameAttempt(t *testing.T) {
	t.Parallel()
	n := newNodesTest(t)
	for what, bad := range map[string][]amqpurl.Node{
		"dead":                   {n.dead(), n.dead()},
		"closing at once":        {n.closing("")},
		"no AMQP":                {n.closing("HTTP/1.1 400 Bad Request\r\n\r\n")},
		"a name that nobody has": {n.node("no-such-host.invalid:5672")},
		"a wrong password":       {n.wrongPassword()},
		"a wrong virtual host":   {n.wrongVhost()},
		"silent, and dead":       {n.silent(), n.dead()},
		"only heartbeats":        {n.halfOpen()},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			good := n.good()
			// dialTimeout bounds the attempt at each node, so the good one has its turn.
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(len(bad)+2)*dialTimeout)
			defer cancel()
			s, err := connectToFirst(ctx, Config{Name: t.Name()}, append(bad, good, n.dead()))
			must(t, err)
			defer s.close()
			if s.host != good.Host {
				t.Errorf("connected to %s, want %s", s.host, good.Host)
			}
		})
	}
}

// TestAFailedAttemptClosesItsConnection: the client library cannot read the certificate, after it
// has connected.
func TestAFailedAttemptClosesItsConnection(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	node := newNodesTest(t).listen(func(c net.Conn) {
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.Copy(io.Discard, c)
		close(closed)
	})
	s, err := connect(t.Context(), Config{URL: "amqps://u:p@" + node.Host + "/?cacertfile=/no-such-file", Name: t.Name()})
	if err == nil {
		s.close()
		t.Fatal("there is a session")
	}
	select {
	case <-closed:
	case <-time.After(dialTimeout):
		t.Errorf("the connection is still open; the attempt ended with: %v", err)
	}
}

func TestAnErrorNamesEveryNodeAndNoPassword(t *testing.T) {
	t.Parallel()
	n := newNodesTest(t)
	dead, refused, elsewhere := n.dead(), n.wrongPassword(), n.wrongVhost()
	s, err := connectToFirst(t.Context(), Config{Name: t.Name()}, []amqpurl.Node{dead, refused, elsewhere})
	if err == nil {
		s.close()
		t.Fatal("there is a session")
	}
	for _, want := range []string{dead.Host + ": ", "refused", refused.Host + ": ", "not allowed", elsewhere.Host + ": ", "no-such-vhost"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

// TestTheOrderOfTheNodesIsRandom connects until each of three nodes has been the first.
func TestTheOrderOfTheNodesIsRandom(t *testing.T) {
	t.Parallel()
	n := newNodesTest(t)
	var hosts []string
	for range 3 {
		hosts = append(hosts, n.good().Host)
	}
	list := n.node(strings.Join(hosts, ",")).URL
	first := map[string]bool{}
	for attempt := 0; len(first) < len(hosts); attempt++ {
		if attempt == 60 { // the probability of this is below 10⁻⁹
			t.Fatalf("60 connections went to %v of %v", first, hosts)
		}
		s, err := connect(t.Context(), Config{URL: list, Name: t.Name()})
		must(t, err)
		first[s.host] = true
		s.close()
	}
}

// TestTheEndOfTheContextEndsAnAttempt: a service that stops does not wait for silent nodes.
func TestTheEndOfTheContextEndsAnAttempt(t *testing.T) {
	t.Parallel()
	n := newNodesTest(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	silent := n.listen(func(c net.Conn) {
		n.Cleanup(func() { _ = c.Close() })
		_, _ = c.Read(make([]byte, 8))
		stop()
	})
	s, err := connectToFirst(ctx, Config{Name: t.Name()}, []amqpurl.Node{silent, n.good()})
	if err == nil {
		s.close()
		t.Fatal("it went on to the next node")
	}
	if errors.Is(err, errNoAnswer) {
		t.Errorf("it has waited for the silent node: %v", err)
	}
}

// TestTheCertificateMustBeOfTheHostThatIsTried: that of the server is for 127.0.0.1, and not for
// localhost. It closes the connections, so both attempts fail, and only one of them by the name.
func TestTheCertificateMustBeOfTheHostThatIsTried(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil) // for its certificate
	server.Close()
	good := newNodesTest(t).listen(func(c net.Conn) {
		_ = tls.Server(c, server.TLS).HandshakeContext(t.Context())
		_ = c.Close()
	}).Host
	authority := filepath.Join(t.TempDir(), "authority.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must(t, os.WriteFile(authority, certificate, 0o600))
	bad := strings.Replace(good, "127.0.0.1", "localhost", 1)
	s, err := connect(t.Context(), Config{URL: "amqps://u:p@" + good + "," + bad + "/?cacertfile=" + authority, Name: t.Name()})
	if err == nil {
		s.close()
		t.Fatal("there is a session with a server that closes its connections")
	}
	name, refused := errors.AsType[x509.HostnameError](err)
	if !refused || name.Host != "localhost" || strings.Count(err.Error(), "x509") != 1 {
		t.Errorf("the attempt ended with: %v", err)
	}
}
