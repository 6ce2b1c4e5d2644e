package operate_test

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

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/internal/operator/operatortest"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/internal/operate"
)

func TestMain(m *testing.M) {
	if os.Getenv(dieAt) != "" {
		replayAndDie()
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	goleak.VerifyTestMain(m)
}

// logged is the log of all tests; each looks for its own ids in it.
var logged operatortest.Log

// patience is how long a test waits for what must happen.
const patience = 40 * time.Second

// bench is an operator before a dead-letter queue of the test's own.
type bench struct {
	*testing.T
	url     string
	channel *amqp.Channel
	queue   string // of the dead letters, and the exchange before it
	requeue string // the exchange
	service string // the queue behind that
	spy     spy
}

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{T: t, url: servertest.BrokerURL(t)}
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

func (b bench) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// declare makes a queue with a fanout exchange before it.
func (b bench) declare(queue, exchange string, arguments amqp.Table) {
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

func (b bench) desk() operate.Desk {
	return operate.Desk{Queue: b.queue, Requeue: b.requeue, By: "somebody", Broker: b.connect}
}

// connect has the spy look at what the command does to its session.
func (b bench) connect(ctx context.Context, use func(context.Context, operate.Session) error) error {
	return operator.OnceConnected(ctx, rabbitmq.Config{URL: b.url, Name: b.Name()}, patience, func(ctx context.Context, s *rabbitmq.Session) error {
		return use(ctx, b.spy.on(operate.On(s)))
	})
}

// run does what a command line says, and returns what is on stdout and stderr.
func (b bench) run(args ...string) (out, progress string, err error) {
	b.Helper()
	return b.runIn(b.Context(), args...)
}

func (b bench) runIn(ctx context.Context, args ...string) (out, progress string, err error) {
	b.Helper()
	var printed, said bytes.Buffer
	action, err := operate.Parse(args, &printed)
	if err == nil {
		d := b.desk()
		d.Out, d.Progress = &printed, &said
		err = action(ctx, d)
	}
	return printed.String(), said.String(), err
}

// must is run where nothing may fail.
func (b bench) must(args ...string) (out string) {
	b.Helper()
	out, _, err := b.run(args...)
	if err != nil {
		b.Fatalf("%q: %v", args, err)
	}
	return out
}

// ids are those of the objects that --json printed, in their order.
func (b bench) ids(out string) []string {
	b.Helper()
	return operatortest.IDs[string](b, out)
}
