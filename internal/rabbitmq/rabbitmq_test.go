package rabbitmq_test

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/url"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen before it calls it hung.
const patience = 40 * time.Second

// bench is a broker, seen over a connection that the package under test has no part
// in. What it declares is deleted when the test ends.
type bench struct {
	*testing.T
	url  string
	conn *amqp.Connection
}

func newBench(t *testing.T) bench {
	t.Helper()
	return benchAt(t, servertest.BrokerURL(t))
}

func benchAt(t *testing.T, url string) bench {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return bench{t, url, conn}
}

// on does one thing on a channel of its own, which the broker may close over it.
func (b bench) on(do func(*amqp.Channel) error) {
	b.Helper()
	channel, err := b.conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	if err := do(channel); err != nil {
		b.Fatal(err)
	}
}

func name() string { return "test." + rand.Text() }

// route makes a topic exchange and a quorum queue that is bound to it by key.
func (b bench) route(key string, arguments amqp.Table) (exchange, queue string) {
	b.Helper()
	exchange, queue = b.exchange(), b.queue(arguments)
	b.on(func(c *amqp.Channel) error { return c.QueueBind(queue, key, exchange, false, nil) })
	return exchange, queue
}

func (b bench) exchange() string {
	b.Helper()
	exchange := b.later("topic")
	b.on(func(c *amqp.Channel) error {
		return c.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)
	})
	return exchange
}

func (b bench) queue(arguments amqp.Table) string {
	b.Helper()
	queue := b.later("queue")
	all := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	maps.Copy(all, arguments)
	b.on(func(c *amqp.Channel) error {
		_, err := c.QueueDeclare(queue, true, false, false, false, all)
		return err
	})
	return queue
}

// later returns the name for something that the test will declare.
func (b bench) later(what string) string {
	object := name()
	b.Cleanup(func() {
		b.on(func(c *amqp.Channel) error {
			if what == "queue" {
				return b.deleteQueue(c, object)
			}
			return c.ExchangeDelete(object, false, false)
		})
	})
	return object
}

func (b bench) deleteQueue(c *amqp.Channel, queue string) error {
	_, err := c.QueueDelete(queue, false, false, false)
	return err
}

// put publishes a message of each id to the queue, in this order.
func (b bench) put(queue string, ids ...string) {
	b.Helper()
	b.on(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		for _, id := range ids {
			confirmation, err := c.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{MessageId: id})
			if err != nil {
				return err
			}
			if !confirmation.Wait() {
				return errors.New("the message was not taken")
			}
		}
		return nil
	})
}

// take removes the next message, which must be there, from the queue.
func (b bench) take(queue string) (d amqp.Delivery) {
	b.Helper()
	b.on(func(c *amqp.Channel) (err error) {
		var ok bool
		if d, ok, err = c.Get(queue, true); err == nil && !ok {
			return errors.New("the queue is empty")
		}
		return err
	})
	return d
}

// proxy returns a proxy before the broker, and the URL of the broker through it.
func (b bench) proxy() (*servertest.Proxy, string) {
	b.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		b.Fatal(err)
	}
	proxy := servertest.NewProxy(b, u.Host)
	u.Host = proxy.Addr()
	return proxy, u.String()
}

// session is what Keep gave to its use.
type session struct {
	*rabbitmq.Session
	ctx context.Context
}

// keeper is a running Keep.
type keeper struct {
	*testing.T
	sessions chan session
	end      func() error // ends Keep and returns what it returned
}

// keep runs Keep until the test ends it, or is over.
func (b bench) keep(url string) keeper {
	k := keeper{T: b.T, sessions: make(chan session)}
	k.end = b.run(url, func(ctx context.Context, s *rabbitmq.Session) error {
		select {
		case k.sessions <- session{s, ctx}:
			<-ctx.Done()
		case <-ctx.Done():
		}
		return nil
	})
	return k
}

// run runs Keep with this use until the test ends it, or is over.
func (b bench) run(url string, use func(context.Context, *rabbitmq.Session) error) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rabbitmq.Keep(ctx, rabbitmq.Config{URL: url, Name: b.Name()}, use) }()
	end = sync.OnceValue(func() error {
		cancel()
		return receive(b.T, ended, "the end of Keep")
	})
	b.Cleanup(func() {
		if err := end(); err != nil {
			b.Errorf("Keep returned %v", err)
		}
	})
	return end
}

// next waits for the next session.
func (k keeper) next() session {
	k.Helper()
	return receive(k.T, k.sessions, "a session")
}

// session returns a session that lasts as long as the test.
func (b bench) session() session {
	b.Helper()
	return b.keep(b.url).next()
}

func (b bench) publisher(s session, window int) *rabbitmq.Publisher {
	b.Helper()
	p, err := s.NewPublisher(window)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// receive waits for a value, and fails the test when none comes.
func receive[T any](t *testing.T, values <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-values:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
