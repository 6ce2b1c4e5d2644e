package servers_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
)

func TestDatabasesAreSeparateAndDropped(t *testing.T) {
	var dropped string
	t.Run("use", func(t *testing.T) {
		dropped = servers.Database(t)
		other := servers.Database(t)
		execute(t, dropped, "CREATE TABLE t ()")
		execute(t, other, "CREATE TABLE t ()")
		conn, err := pgx.Connect(shortContext(t), dropped) // stays open: the drop is forced
		must(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
	})
	if _, err := pgx.Connect(shortContext(t), dropped); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("connecting after the test gave %v", err)
	}
}

func TestBrokerURLAnswers(t *testing.T) {
	if url := servers.BrokerURL(t); !strings.HasPrefix(url, "amqp://") {
		t.Errorf("the broker is %q", url)
	}
}

func TestMissingServersEndTheTest(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable")
	t.Setenv("TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:1/")
	for name, ask := range map[string]func(testing.TB) string{
		"PostgreSQL": servers.Database,
		"RabbitMQ":   servers.BrokerURL,
	} {
		message := fatalOf(t, func(tb testing.TB) { ask(tb) })
		if !strings.Contains(message, "make test") || !strings.Contains(message, name) {
			t.Errorf("without a %s, the test ends with %q", name, message)
		}
	}
}
