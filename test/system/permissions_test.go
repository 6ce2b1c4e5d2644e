package system

import (
	"cmp"
	"errors"
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

const otherQueue = "billing" // of another service

// forbiddenAttempts are the operations that deploy/rabbitmq/definitions.json must not permit
// to the user of a service.
var forbiddenAttempts = map[string][]attempt{
	services.Orders: {
		publish("", mainQueue), publish(requeueExchange, ""), publish(deadLetterExchange, ""), publish(retryPrefix+"30s", ""), publish("amq.topic", "order.created"),
		consume(mainQueue), get(mainQueue), get(deadLetterQueue), purge(mainQueue), purge(deadLetterQueue),
		deleteQueue(mainQueue), deleteQueue(retryPrefix + "30s"), deleteQueue(deadLetterQueue), deleteExchange(requeueExchange), deleteExchange(deadLetterExchange),
		unbindQueue(mainQueue, eventsExchange), unbindQueue(deadLetterQueue, deadLetterExchange), bindQueue(mainQueue, eventsExchange),
		declareQueue("spy", nil), declareQueue("notification-service.x", nil), declareQueue("order-service.x", nil),
	},
	services.Notifications: {
		// A forged event would make every service believe in an order that does not exist.
		publish(eventsExchange, "order.created"), publish("", mainQueue), publish("amq.fanout", ""),
		declareQueue(retryPrefix+"9s", amqp.Table{"x-dead-letter-exchange": eventsExchange}),
		declareExchange(retryPrefix+"9s", amqp.Table{"alternate-exchange": eventsExchange}),
		bindExchange(eventsExchange, requeueExchange),
		get(otherQueue), consume(otherQueue), purge(otherQueue), deleteQueue(otherQueue), deleteExchange(eventsExchange),
		bindQueue(mainQueue, "amq.topic"), declareQueue("spy", nil), declareQueue("notification-service.x", nil),
		declareQueue("another-notification-service.dlq", nil), declareExchange("order-service.x", nil),
	},
}

// composeBroker is the URL of Compose's broker, amqp://127.0.0.1:5673/, if these tests should
// use it. It has another version, and imports the definitions when it starts.
var composeBroker = os.Getenv("TEST_COMPOSE_BROKER")

// TestTheBrokerEnforcesThePermissions also makes each attempt as guest, who may do everything.
// So no attempt fails only because an object does not exist.
func TestTheBrokerEnforcesThePermissions(t *testing.T) {
	t.Parallel()
	address, private := composeBroker, composeBroker == ""
	if private {
		address = newSystem(t).brokerURL
		declareAll(t, address)
	}
	for user, attempts := range forbiddenAttempts {
		for _, a := range attempts {
			if err := attemptAs(t, servers.BrokerURLFor(user, address), a); !accessRefused(err) {
				t.Errorf("%s may %s: %v", user, a.name, err)
			}
			if !private {
				continue
			}
			if err := attemptAs(t, address, a); err != nil {
				t.Errorf("guest cannot %s, so the test proves nothing: %v", a.name, err)
			}
			declareAll(t, address) // declares again what guest has deleted
		}
	}
}

// declareAll declares objects with the names of the services' own, and deletes all others.
func declareAll(t *testing.T, address string) {
	t.Helper()
	all := []attempt{deleteQueue(retryPrefix + "9s"), deleteExchange(retryPrefix + "9s")}
	for _, name := range []string{requeueExchange, deadLetterExchange, retryPrefix + "30s"} {
		all = append(all, declareExchange(name, nil))
	}
	for _, name := range []string{mainQueue, deadLetterQueue, otherQueue, retryPrefix + "30s"} {
		all = append(all, declareQueue(name, nil))
	}
	must(t, attemptAs(t, address, attempt{"declare all", func(c *amqp.Channel) error {
		errs := []error{declareEventsExchange(c)}
		for _, a := range all {
			errs = append(errs, a.do(c))
		}
		return errors.Join(errs...)
	}}))
}

// definedBroker returns the URL of a broker that has imported the definitions.
func definedBroker(t *testing.T) string {
	t.Helper()
	if composeBroker != "" {
		return composeBroker
	}
	return servers.RabbitMQWithDefinitions(t, repository).URL("/")
}

// TestOnlyDefinedUsersCanLogIn has a broker that imports the definitions when it starts, as
// Compose's does.
func TestOnlyDefinedUsersCanLogIn(t *testing.T) {
	t.Parallel()
	address := definedBroker(t)
	for _, user := range []string{services.Orders, services.Notifications} {
		conn, err := amqp.Dial(servers.BrokerURLFor(user, address))
		must(t, err)
		must(t, conn.Close())
	}
	for _, user := range []string{
		"guest",      // RabbitMQ's default user, with a well-known password
		"outbox",     // the only user of this project's earlier versions
		"monitoring", // may log in to the management UI only
	} {
		if conn, err := amqp.Dial(servers.BrokerURLFor(user, address)); err == nil {
			t.Errorf("%s can log in", user)
			_ = conn.Close()
		}
	}
}

// TestTheBrokerLimitsTheConnectionsOfAUser opens more connections than a user may have.
func TestTheBrokerLimitsTheConnectionsOfAUser(t *testing.T) {
	t.Parallel()
	address := definedBroker(t)
	const limit = 60
	open := 0
	for ; open <= limit; open++ {
		conn, err := amqp.Dial(servers.BrokerURLFor(services.Notifications, address))
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	if open > limit || composeBroker == "" && open < limit {
		t.Errorf("%d open connections, want %d", open, limit)
	}
}

// TestP9TheBrokerRejectsTooLargeMessages proves the limit on which the consumer relies for
// its memory.
func TestP9TheBrokerRejectsTooLargeMessages(t *testing.T) {
	t.Parallel()
	address := definedBroker(t)
	conn, err := amqp.Dial(servers.BrokerURLFor(services.Orders, address))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for size, refused := range map[int]bool{rabbitmq.MaxBody: false, rabbitmq.MaxBody + 1: true} {
		channel, err := conn.Channel()
		must(t, err)
		must(t, declareEventsExchange(channel))
		closed := channel.NotifyClose(make(chan *amqp.Error, 1))
		must(t, channel.Confirm(false))
		confirm, err := channel.PublishWithDeferredConfirm(eventsExchange, "order.created", false, false, amqp.Publishing{Body: make([]byte, size)})
		must(t, err)
		if confirmed := confirm.Wait(); confirmed == refused {
			t.Errorf("%d bytes: confirmed is %t", size, confirmed)
		}
		if refused {
			if reason := <-closed; reason == nil || reason.Code != amqp.PreconditionFailed {
				t.Errorf("%d bytes: the channel closed with %v", size, reason)
			}
		}
	}
}

// attempt is an operation at the broker.
type attempt struct {
	name string
	do   func(*amqp.Channel) error
}

func publish(to, key string) attempt {
	return attempt{"publish to the exchange " + cmp.Or(to, "that routes to any queue by its name"), func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		confirm, err := c.PublishWithDeferredConfirm(to, key, false, false, amqp.Publishing{Body: []byte("{}")})
		if err == nil {
			confirm.Wait() // returns also when the channel closes
		}
		return err
	}}
}

func consume(queue string) attempt {
	return attempt{"consume " + queue, func(c *amqp.Channel) error {
		_, err := c.Consume(queue, "", false, false, false, false, nil)
		return err
	}}
}

func get(queue string) attempt {
	return attempt{"get from " + queue, func(c *amqp.Channel) error {
		_, _, err := c.Get(queue, false)
		return err
	}}
}

func purge(queue string) attempt {
	return attempt{"purge " + queue, func(c *amqp.Channel) error {
		_, err := c.QueuePurge(queue, false)
		return err
	}}
}

func deleteQueue(queue string) attempt {
	return attempt{"delete the queue " + queue, func(c *amqp.Channel) error {
		_, err := c.QueueDelete(queue, false, false, false)
		return err
	}}
}

func deleteExchange(name string) attempt {
	return attempt{"delete the exchange " + name, func(c *amqp.Channel) error { return c.ExchangeDelete(name, false, false) }}
}

func bindQueue(queue, to string) attempt {
	return attempt{"bind " + queue + " to " + to, func(c *amqp.Channel) error { return c.QueueBind(queue, "#", to, false, nil) }}
}

func unbindQueue(queue, from string) attempt {
	return attempt{"unbind " + queue + " from " + from, func(c *amqp.Channel) error { return c.QueueUnbind(queue, "#", from, nil) }}
}

func bindExchange(name, to string) attempt {
	return attempt{"bind the exchange " + name + " to " + to, func(c *amqp.Channel) error {
		return c.ExchangeBind(name, "#", to, false, nil)
	}}
}

func declareQueue(queue string, arguments amqp.Table) attempt {
	name := "declare the queue " + queue
	for argument, value := range arguments {
		name += " with " + argument + " " + value.(string)
	}
	return attempt{name, func(c *amqp.Channel) error {
		_, err := c.QueueDeclare(queue, true, false, false, false, arguments)
		return err
	}}
}

func declareExchange(name string, arguments amqp.Table) attempt {
	return attempt{"declare the exchange " + name + " with an alternate", func(c *amqp.Channel) error {
		return c.ExchangeDeclare(name, "fanout", true, false, false, false, arguments)
	}}
}

// attemptAs makes an attempt on a new connection, and returns the broker's error.
func attemptAs(t *testing.T, address string, a attempt) error {
	t.Helper()
	conn, err := amqp.Dial(address)
	if err != nil {
		t.Fatalf("cannot connect: %v", err)
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	if err := a.do(channel); err != nil {
		return err
	}
	select {
	case reason := <-closed:
		return reason
	default:
		return nil
	}
}

func accessRefused(err error) bool {
	var reason *amqp.Error
	return errors.As(err, &reason) && reason.Code == amqp.AccessRefused
}
