package cli_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/cli/clitest"
	"example.com/transactional-outbox/internal/rabbitmq"
	dlqcli "example.com/transactional-outbox/notification-service/internal/cli"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(dieAt) != "" {
		replayAndDie()
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	goleak.VerifyTestMain(m)
}

// logged is the log of all tests; each looks for its own ids in it.
var logged clitest.Log

// testTimeout bounds every wait.
const testTimeout = 40 * time.Second

// fixture is an operator with a dead-letter queue of the test's own.
type fixture struct {
	*testing.T
	url     string
	channel *amqp.Channel
	queue   string // of the dead letters, and the exchange before it
	requeue string // the exchange
	service string // the queue behind that
	hooks   hooks
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	b := fixture{T: t, url: servers.BrokerURL(t)}
	b.queue, b.requeue, b.service = "test."+rand.Text(), "test."+rand.Text(), "test."+rand.Text()
	conn, err := amqp.Dial(b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	b.channel, err = conn.Channel()
	b.check(err)
	b.check(b.channel.Confirm(false))
	b.declare(b.queue, b.queue, amqp.Table{"x-delivery-limit": 1_000_000_000})
	b.declare(b.service, b.requeue, amqp.Table{
		"x-delivery-limit": 1, "x-dead-letter-exchange": b.queue, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	return b
}

func (b fixture) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// declare makes a queue with a fanout exchange before it.
func (b fixture) declare(queue, exchange string, arguments amqp.Table) {
	b.Helper()
	arguments[amqp.QueueTypeArg] = amqp.QueueTypeQuorum
	_, err := b.channel.QueueDeclare(queue, true, false, false, false, arguments)
	b.check(err)
	b.check(b.channel.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
	b.check(b.channel.QueueBind(queue, "", exchange, false, nil))
	b.Cleanup(func() {
		_ = b.channel.ExchangeDelete(exchange, false, false)
		_, _ = b.channel.QueueDelete(queue, false, false, false)
	})
}

func (b fixture) dependencies() dlqcli.Dependencies {
	return dlqcli.Dependencies{Queue: b.queue, Requeue: b.requeue, By: "somebody", Broker: b.connect}
}

// connect calls the hooks at each step of the command.
func (b fixture) connect(ctx context.Context, use func(context.Context, dlqcli.Session) error) error {
	return cli.WithSession(ctx, rabbitmq.Config{URL: b.url, Name: b.Name()}, testTimeout, func(ctx context.Context, s *rabbitmq.Session) error {
		return use(ctx, b.hooks.on(dlqcli.Adapt(s)))
	})
}

// run runs a command line, and returns its stdout and stderr.
func (b fixture) run(args ...string) (out, progress string, err error) {
	b.Helper()
	return b.runIn(b.Context(), args...)
}

func (b fixture) runIn(ctx context.Context, args ...string) (out, progress string, err error) {
	b.Helper()
	var printed, reported bytes.Buffer
	action, err := dlqcli.Parse(args, &printed)
	if err == nil {
		d := b.dependencies()
		d.Out, d.Progress = &printed, &reported
		err = action(ctx, d)
	}
	return printed.String(), reported.String(), err
}

// must is run for a command that must succeed.
func (b fixture) must(args ...string) (out string) {
	b.Helper()
	out, _, err := b.run(args...)
	if err != nil {
		b.Fatalf("%q: %v", args, err)
	}
	return out
}

// ids are those of the objects that --json printed, in their order.
func (b fixture) ids(out string) []string {
	b.Helper()
	return clitest.IDs[string](b, out)
}
