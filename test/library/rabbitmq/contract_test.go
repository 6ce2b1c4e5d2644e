package rabbitmq_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/publish/publishtest"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// TestP3RabbitMQKeepsTheContractOfPublishers starts one broker for all, because a start takes
// seconds.
func TestP3RabbitMQKeepsTheContractOfPublishers(t *testing.T) {
	t.Parallel()
	server := servers.RabbitMQ(t)
	publishtest.Run(t, func(t *testing.T) publishtest.Broker {
		b := contractBroker{T: t, server: server, exchange: name(), queue: name(), held: name()}
		b.declare()
		return b.harness()
	})
}

// contractBroker is the broker of one clause: an exchange with one queue. They stay after the test.
type contractBroker struct {
	*testing.T
	server          *servers.RabbitMQServer
	exchange, queue string
	held            string // a queue of its own, for the topic held
}

// keys are those that a queue is bound by.
const keys = "order.*"

func (b contractBroker) harness() publishtest.Broker {
	proxy, through := b.connect().proxy()
	return publishtest.Broker{
		Connect:     func(*testing.T) publish.Session { return b.connect().keep(through).next().ForRelay("") },
		Destination: b.exchange,
		NoListener:  publish.Message{Topic: "nobody.listens"},
		Received:    b.received(),
		Refuse:      func(*testing.T) func() { return b.refuse() },
		Hold:        func(*testing.T) func() { return b.connect().suspend(b.server, b.held) },
		Held:        publish.Message{Topic: "held"},
		Cut:         func(*testing.T) { proxy.Cut() },
		Silence: func(*testing.T) func() {
			proxy.HoldReplies()
			return proxy.Resume
		},
		Restart: func(*testing.T) { b.restart() },
		Block: func(*testing.T) func() {
			broker := blockableBroker{b.connect(), b.server}
			broker.alarm(true)
			return func() { broker.alarm(false) }
		},
		Invalid: map[error]publish.Message{
			publish.ErrTooLarge:   {Body: make([]byte, rabbitmq.MaxBody+1)},
			publish.ErrBadTopic:   {Topic: "order." + strings.Repeat("k", 250)},
			publish.ErrBadHeaders: {Headers: map[string]any{"h": strings.Repeat("v", 140<<10)}},
		},
	}
}

// connect connects directly, each time again: a restart ends the connections.
func (b contractBroker) connect() brokerTest {
	b.Helper()
	return newBrokerTestAt(b.T, b.server.URL("/"))
}

func (b contractBroker) declare() {
	b.connect().withChannel(func(c *amqp.Channel) error {
		if err := c.ExchangeDeclare(b.exchange, "topic", true, false, false, false, nil); err != nil {
			return err
		}
		return errors.Join(b.declareQueue(c, b.queue, keys, nil), b.declareQueue(c, b.held, "held", nil))
	})
}

func (b contractBroker) declareQueue(c *amqp.Channel, queue, keys string, arguments amqp.Table) error {
	all := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	maps.Copy(all, arguments)
	if _, err := c.QueueDeclare(queue, true, false, false, false, all); err != nil {
		return err
	}
	return c.QueueBind(queue, keys, b.exchange, false, nil)
}

// refuse routes the messages to a full queue instead, until undo.
func (b contractBroker) refuse() (undo func()) {
	b.Helper()
	full, broker := name(), b.connect()
	broker.withChannel(func(c *amqp.Channel) error {
		if err := b.declareQueue(c, full, keys, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
			return err
		}
		return c.QueueUnbind(b.queue, keys, b.exchange, nil)
	})
	p := broker.publisher(broker.session(), 1)
	// A quorum queue looks at its length a little late: the limit is soft.
	check.Await(b.T, "the queue is full", func() bool {
		return publishAll(b.T, p, to(b.exchange, "order.full")...)[0].Outcome == publish.Refused
	})
	return func() {
		broker.withChannel(func(c *amqp.Channel) error {
			if err := c.QueueBind(b.queue, keys, b.exchange, false, nil); err != nil {
				return err
			}
			return c.QueueUnbind(full, keys, b.exchange, nil)
		})
	}
}

// restart kills the broker in the middle of its work. RabbitMQ 3.10 writes the names of new queues
// to the disk after half a second. A queue that is killed before that never has a leader again.
func (b contractBroker) restart() {
	b.Helper()
	if _, err := b.server.Ctl(b.Context(), "eval", "[ok = dets:sync(Table) || Table <- dets:all()]."); err != nil {
		b.Fatal(err)
	}
	check.Must(b, b.server.Kill())
	check.Must(b, b.server.Start(b.Context()))
}

// received takes messages from the queue until there were n of them, and then the rest.
func (b contractBroker) received() func(*testing.T, int) []publish.Message {
	var all []publish.Message
	return func(_ *testing.T, n int) []publish.Message {
		b.connect().withChannel(func(c *amqp.Channel) error {
			deliveries, err := c.Consume(b.queue, "contract", true, false, false, false, nil)
			if err != nil {
				return err
			}
			for len(all) < n {
				all = append(all, eventOf(check.Receive(b.T, deliveries, "message in the queue")))
			}
			if err := c.Cancel("contract", false); err != nil {
				return err
			}
			for d := range deliveries {
				all = append(all, eventOf(d))
			}
			return drain(c, b.queue, func(d amqp.Delivery) { all = append(all, eventOf(d)) })
		})
		return all
	}
}

// drain takes what the queue has now. A publisher may add messages meanwhile.
func drain(c *amqp.Channel, queue string, take func(amqp.Delivery)) error {
	d, ok, err := c.Get(queue, true)
	for left := d.MessageCount; ok && err == nil; left-- {
		take(d)
		if left == 0 {
			return nil
		}
		d, ok, err = c.Get(queue, true)
	}
	return err
}

func eventOf(d amqp.Delivery) publish.Message {
	return publish.Message{
		ID: d.MessageId, Destination: d.Exchange, Topic: d.RoutingKey, ContentType: d.ContentType,
		AppID: d.AppId, Timestamp: d.Timestamp, Headers: d.Headers, Body: d.Body,
	}
}

// suspend stops the process of a queue, until resume. The broker still accepts messages for it.
func (b brokerTest) suspend(server *servers.RabbitMQServer, queue string) (resume func()) {
	b.Helper()
	check.Must(b, server.OnQueue(b.Context(), queue, "sys:suspend"))
	return func() { check.Must(b, server.OnQueue(context.WithoutCancel(b.Context()), queue, "sys:resume")) }
}

// blockableBroker is a broker that only this test uses, so that it can switch the memory alarm.
type blockableBroker struct {
	brokerTest
	server *servers.RabbitMQServer
}

func newBlockableBroker(t *testing.T) blockableBroker {
	t.Helper()
	server := servers.RabbitMQ(t)
	b := blockableBroker{newBrokerTestAt(t, server.URL("/")), server}
	if _, err := server.Ctl(t.Context(), "await_startup"); err != nil { // it takes connections before it is up
		t.Fatal(err)
	}
	return b
}

func (b blockableBroker) alarm(on bool) {
	b.Helper()
	check.Must(b, b.server.Alarm(b.Context(), on))
}
