package servers_test

import (
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

func TestPostgresStartsOnAnotherPortIfItsOwnIsInUse(t *testing.T) {
	t.Parallel()
	server, err := servers.NewPostgres(worldReadableFolder(t), process.WithParent)
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	occupied := server.Port()
	occupyPort(t, occupied, servers.Database(t)) // another PostgreSQL answers there
	must(t, server.Start(shortContext(t)))
	if server.Port() == occupied {
		t.Error("it reports the port of the other server")
	}
	conn, err := pgx.Connect(shortContext(t), server.URL("postgres"))
	must(t, err)
	defer func() { _ = conn.Close(shortContext(t)) }()
	var databases int
	must(t, conn.QueryRow(shortContext(t), "SELECT count(*) FROM pg_database").Scan(&databases))
	if databases != 3 {
		t.Errorf("it has %d databases, want the 3 of a new server", databases)
	}
}

// TestRabbitMQStartsOnOtherPortsIfOneIsInUse occupies each port in turn. For AMQP another broker
// answers there, and on the other ports nothing answers.
func TestRabbitMQStartsOnOtherPortsIfOneIsInUse(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"amqp", "distribution", "epmd", "metrics"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var plugins []string
			if name == "metrics" {
				plugins = append(plugins, servers.MetricsPlugin)
			}
			broker, err := servers.NewRabbitMQ(worldReadableFolder(t), process.WithParent, plugins...)
			must(t, err)
			t.Cleanup(func() { must(t, broker.Close()) })
			occupied := broker.Ports()[i]
			other := ""
			if name == "amqp" {
				other = servers.BrokerURL(t)
			}
			occupyPort(t, occupied, other)
			must(t, broker.Start(t.Context())) // Start has a timeout itself
			if now := broker.Ports()[i]; now == occupied {
				t.Errorf("it reports the occupied port %d", now)
			}
			if _, err := broker.Ctl(t.Context(), "await_startup"); err != nil {
				t.Error(err)
			}
		})
	}
}

// occupyPort listens on a port until the test ends. It forwards connections to the server of a
// URL, or leaves them without an answer if the URL is "".
func occupyPort(t *testing.T, port int, server string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	must(t, err)
	var running sync.WaitGroup
	var conns []net.Conn // only the goroutine below uses it
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
			if server != "" {
				conns = append(conns, forward(t, &running, conn, server))
			}
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
}

func forward(t *testing.T, running *sync.WaitGroup, conn net.Conn, server string) net.Conn {
	u, err := url.Parse(server)
	if err != nil {
		t.Error(err)
		return conn
	}
	there, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Error(err)
		return conn
	}
	running.Go(func() { _, _ = io.Copy(there, conn); _ = there.Close() })
	running.Go(func() { _, _ = io.Copy(conn, there); _ = conn.Close() })
	return there
}
