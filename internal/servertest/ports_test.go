package servertest_test

import (
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/servertest/process"
)

func TestPostgresStartsOnAnotherPortIfItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	server, err := servertest.NewPostgres(worldReadableFolder(t), process.WithParent)
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	taken := server.Port()
	takePort(t, taken, servertest.Database(t)) // another PostgreSQL answers there
	must(t, server.Start(soon(t)))
	if server.Port() == taken {
		t.Error("it says that it has the port of the other one")
	}
	conn, err := pgx.Connect(soon(t), server.URL("postgres"))
	must(t, err)
	defer func() { _ = conn.Close(soon(t)) }()
	var databases int
	must(t, conn.QueryRow(soon(t), "SELECT count(*) FROM pg_database").Scan(&databases))
	if databases != 3 {
		t.Errorf("it has %d databases, want those of a new server", databases)
	}
}

// TestRabbitMQStartsOnOtherPortsIfOneIsTaken has another broker answer on each port, or
// somebody who never says a word.
func TestRabbitMQStartsOnOtherPortsIfOneIsTaken(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"amqp", "distribution", "epmd", "metrics"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var plugins []string
			if name == "metrics" {
				plugins = append(plugins, servertest.MetricsPlugin)
			}
			broker, err := servertest.NewRabbitMQ(worldReadableFolder(t), process.WithParent, plugins...)
			must(t, err)
			t.Cleanup(func() { must(t, broker.Close()) })
			taken := broker.Ports()[i]
			other := ""
			if name == "amqp" {
				other = servertest.BrokerURL(t)
			}
			takePort(t, taken, other)
			must(t, broker.Start(t.Context())) // its own limit is enough
			if now := broker.Ports()[i]; now == taken {
				t.Errorf("it says that it has the taken port %d", now)
			}
			if _, err := broker.Ctl(t.Context(), "await_startup"); err != nil {
				t.Error(err)
			}
		})
	}
}

// takePort listens on a port as another program would, until the test ends. What comes in
// goes to the server of a URL, or nowhere.
func takePort(t *testing.T, port int, server string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	must(t, err)
	var running sync.WaitGroup
	var conns []net.Conn // of the goroutine below
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
