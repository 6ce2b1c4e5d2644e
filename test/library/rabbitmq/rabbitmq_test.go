// Package rabbitmq_test proves what package rabbitmq promises with brokers, and proxies, that a test may
// stop, block and cut.
package rabbitmq_test

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokerTest is a test with a connection to the broker that does not use the package under test.
// Its exchanges and queues are deleted when the test ends.
type brokerTest struct {
	*testing.T
	url  string
	conn *amqp.Connection
}

func newBrokerTest(t *testing.T) brokerTest {
	t.Helper()
	return newBrokerTestAt(t, servers.BrokerURL(t))
}

func newBrokerTestAt(t *testing.T, url string) brokerTest {
	t.Helper()
	conn, err := amqp.Dial(url)
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return brokerTest{t, url, conn}
}

// withChannel calls do with a new channel. So an error that closes the channel affects nothing
// else.
func (b brokerTest) withChannel(do func(*amqp.Channel) error) {
	b.Helper()
	channel, err := b.conn.Channel()
	check.Must(b, err)
	defer func() { _ = channel.Close() }()
	check.Must(b, do(channel))
}

func name() string { return "test." + rand.Text() }

// route makes a topic exchange and a quorum queue that is bound to all of its keys.
func (b brokerTest) route() (exchange string) {
	b.Helper()
	exchange, queue := b.exchange(), b.queue(nil)
	b.withChannel(func(c *amqp.Channel) error { return c.QueueBind(queue, "#", exchange, false, nil) })
	return exchange
}

func (b brokerTest) exchange() string {
	b.Helper()
	exchange := b.newName("topic")
	b.withChannel(func(c *amqp.Channel) error {
		return c.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)
	})
	return exchange
}

func (b brokerTest) queue(arguments amqp.Table) string {
	b.Helper()
	queue := b.newName("queue")
	all := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	maps.Copy(all, arguments)
	b.withChannel(func(c *amqp.Channel) error {
		_, err := c.QueueDeclare(queue, true, false, false, false, all)
		return err
	})
	return queue
}

// newName returns a name for a queue or exchange that the test declares later. It is deleted when
// the test ends.
func (b brokerTest) newName(what string) string {
	object := name()
	if what == "queue" {
		object += ".dlq" // so that every queue can be read like one of dead letters
	}
	b.Cleanup(func() {
		b.withChannel(func(c *amqp.Channel) error {
			if what == "queue" {
				return b.deleteQueue(c, object)
			}
			return c.ExchangeDelete(object, false, false)
		})
	})
	return object
}

func (b brokerTest) deleteQueue(c *amqp.Channel, queue string) error {
	_, err := c.QueueDelete(queue, false, false, false)
	return err
}

// put publishes a message of each id to the queue, in this order.
func (b brokerTest) put(queue string, ids ...string) {
	b.Helper()
	b.withChannel(func(c *amqp.Channel) error {
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

// get removes the next message, which must be there, from the queue.
func (b brokerTest) get(queue string) (d amqp.Delivery) {
	b.Helper()
	b.withChannel(func(c *amqp.Channel) (err error) {
		var ok bool
		if d, ok, err = c.Get(queue, true); err == nil && !ok {
			return errors.New("the queue is empty")
		}
		return err
	})
	return d
}

// proxy returns a proxy before the broker, and the URL of the broker through it.
func (b brokerTest) proxy() (*servers.Proxy, string) {
	b.Helper()
	return servers.ProxyFor(b, b.url)
}

// session is a session with its context, as KeepConnected passes them to use.
type session struct {
	*rabbitmq.Session
	ctx context.Context
}

// keeper is a running KeepConnected.
type keeper struct {
	*testing.T
	sessions chan session
	end      func() error // ends KeepConnected and returns what it returned
}

// keep runs KeepConnected until the test ends it, or is over.
func (b brokerTest) keep(url string) keeper {
	k := keeper{T: b.T, sessions: make(chan session)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: url, Name: b.Name()}, func(ctx context.Context, s *rabbitmq.Session) error {
			select {
			case k.sessions <- session{s, ctx}:
				<-ctx.Done()
			case <-ctx.Done():
			}
			return nil
		})
	}()
	k.end = sync.OnceValue(func() error {
		cancel()
		return check.Receive(b.T, ended, "the end of KeepConnected")
	})
	b.Cleanup(func() {
		if err := k.end(); err != nil {
			b.Errorf("KeepConnected returned %v", err)
		}
	})
	return k
}

// next waits for the next session.
func (k keeper) next() session {
	k.Helper()
	return check.Receive(k.T, k.sessions, "a session")
}

// session returns a session that lasts as long as the test.
func (b brokerTest) session() session {
	b.Helper()
	return b.keep(b.url).next()
}

func (b brokerTest) publisher(s session, window int) *rabbitmq.Publisher {
	b.Helper()
	p, err := s.NewPublisher(window)
	check.Must(b, err)
	return p
}
