package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	databaseURL = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	brokerURL   = "amqp://guest:guest@127.0.0.1:5672/"
	startHint   = "run eval \"$(scripts/stack servers)\", which starts what is missing"

	// To drop a database, PostgreSQL waits for a checkpoint. On a busy disk that takes long.
	sharedTimeout = time.Minute
)

// Database creates an empty database on the shared server, and returns its URL. It is dropped
// when the test ends, even if there are connections.
func Database(tb testing.TB) string {
	tb.Helper()
	server := cmp.Or(os.Getenv("TEST_DATABASE_URL"), databaseURL)
	name := "test_" + strings.ToLower(rand.Text())
	execute(tb, server, "CREATE DATABASE "+identifier(name))
	tb.Cleanup(func() { execute(tb, server, "DROP DATABASE "+identifier(name)+" WITH (FORCE)") })

	u, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("TEST_DATABASE_URL: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

// BrokerURL returns the URL of the shared broker. Each test must use unique names for its queues
// and exchanges.
func BrokerURL(tb testing.TB) string {
	tb.Helper()
	broker := cmp.Or(os.Getenv("TEST_AMQP_URL"), brokerURL)
	u, err := url.Parse(broker)
	if err != nil {
		tb.Fatalf("TEST_AMQP_URL: %v", err)
	}
	host := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5672"))
	if err := AMQPAnswers(tb.Context(), host); err != nil {
		tb.Fatalf("RabbitMQ at %s: %v; %s", u.Redacted(), err, startHint)
	}
	return broker
}

// execute runs one statement on a new connection. It does not use the test's context, which is
// cancelled before the cleanups run.
func execute(tb testing.TB, server, statement string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		tb.Fatalf("PostgreSQL: %v; %s", err, startHint)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// BrokerURLFor returns a broker's URL for a user of deploy/rabbitmq/definitions.json. In the
// demo, the password of each user equals the name.
func BrokerURLFor(user, broker string) string { return withUser(broker, user, user) }

// withUser replaces user and password in a URL. The caller has used the URL, so it is valid.
func withUser(address, user, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// ProxyFor starts a proxy in front of the server of a URL, and returns the URL through the
// proxy. The URL may be of a database, a broker or a mail server.
func ProxyFor(tb testing.TB, direct string) (p *Proxy, through string) {
	tb.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatal(err)
	}
	p = NewProxy(tb, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}
