package systemtest

import (
	"cmp"
	"errors"
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
)

// attempt is something that a user of the broker must not be able to do.
type attempt struct {
	name string
	do   func(*amqp.Channel) error
}

func publish(to, key string) attempt {
	return attempt{"publish to the exchange " + cmp.Or(to, "that leads to any queue by its name"), func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		confirm, err := c.PublishWithDeferredConfirm(to, key, false, false, amqp.Publishing{Body: []byte("{}")})
		if err == nil {
			confirm.Wait() // or the channel closes
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
	return attempt{"look into " + queue, func(c *amqp.Channel) error {
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

const (
	orderDeadLetters  = "order-service.dlq"
	orderDeadLettersX = "order-service.dlx"
)

// forbidden is what rabbitmq/definitions.json must not let a service do, by its user.
var forbidden = map[string][]attempt{
	orderService: {
		publish("", mainQueue), publish(requeueX, ""), publish(deadLetterX, ""), publish(retry+"30s", ""), publish("amq.topic", "order.created"),
		consume(mainQueue), get(mainQueue), get(deadLetters), purge(mainQueue), purge(deadLetters), consume(orderDeadLetters),
		deleteQueue(mainQueue), deleteQueue(retry + "30s"), deleteQueue(deadLetters), deleteExchange(requeueX), deleteExchange(deadLetterX),
		unbindQueue(mainQueue, exchange), unbindQueue(deadLetters, deadLetterX), bindQueue(orderDeadLetters, exchange),
		declareQueue("spy", nil), declareQueue("notification-service.x", nil), declareQueue("order-service.x", nil),
	},
	notificationService: {
		// To forge an event would be to make any service believe in an order, so each way to it is tried.
		publish(exchange, "order.created"), publish("", orderDeadLetters), publish("amq.fanout", ""), publish(orderDeadLettersX, ""),
		declareQueue(retry+"9s", amqp.Table{"x-dead-letter-exchange": exchange}),
		declareQueue(retry+"9s", amqp.Table{"x-dead-letter-exchange": orderDeadLettersX}),
		declareExchange(retry+"9s", amqp.Table{"alternate-exchange": exchange}),
		bindExchange(exchange, requeueX),
		get(orderDeadLetters), consume(orderDeadLetters), purge(orderDeadLetters), bindQueue(mainQueue, orderDeadLettersX),
		deleteExchange(exchange), deleteQueue(orderDeadLetters), deleteExchange(orderDeadLettersX),
		unbindQueue(orderDeadLetters, orderDeadLettersX), declareQueue("spy", nil), declareQueue("notification-service.x", nil),
		declareQueue("another-notification-service.dlq", nil), declareExchange("order-service.x", nil),
	},
}

// composeBroker names the broker of Compose, amqp://127.0.0.1:5673/, when these tests are to
// try it: another version, and set up by its own start.
var composeBroker = os.Getenv("TEST_COMPOSE_BROKER")

// TestTheBrokerRefusesWhatAServiceMustNotDo also lets guest do all of it, so that nothing is
// refused because it is not there.
func TestTheBrokerRefusesWhatAServiceMustNotDo(t *testing.T) {
	t.Parallel()
	address, alone := composeBroker, composeBroker == ""
	if alone {
		address = newSystem(t).brokerURL
		declareAll(t, address)
	}
	for user, attempts := range forbidden {
		for _, a := range attempts {
			if err := try(t, servertest.As(user, address), a); !accessRefused(err) {
				t.Errorf("%s may %s: %v", user, a.name, err)
			}
			if !alone {
				continue
			}
			if err := try(t, address, a); err != nil {
				t.Errorf("nobody may %s, so that proves nothing: %v", a.name, err)
			}
			declareAll(t, address) // what guest has deleted
		}
	}
}

// declareAll makes what the services own, as far as names go, and nothing more.
func declareAll(t *testing.T, address string) {
	t.Helper()
	all := []attempt{deleteQueue(retry + "9s"), deleteExchange(retry + "9s")}
	for _, name := range []string{requeueX, deadLetterX, orderDeadLettersX, retry + "30s"} {
		all = append(all, declareExchange(name, nil))
	}
	for _, name := range []string{mainQueue, deadLetters, orderDeadLetters, retry + "30s"} {
		all = append(all, declareQueue(name, nil))
	}
	must(t, try(t, address, attempt{"declare all", func(c *amqp.Channel) error {
		errs := []error{c.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)}
		for _, a := range all {
			errs = append(errs, a.do(c))
		}
		return errors.Join(errs...)
	}}))
}

// try does it on a connection of its own, and returns what the broker says to that.
func try(t *testing.T, address string, a attempt) error {
	t.Helper()
	conn, err := amqp.Dial(address)
	if err != nil {
		t.Fatalf("%v: nobody gets in", err)
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

// TestOnlyTheUsersThatAreDefinedGetIn has a broker that sets itself up by the definitions, as
// that of Compose does.
func TestOnlyTheUsersThatAreDefinedGetIn(t *testing.T) {
	t.Parallel()
	address := composeBroker
	if address == "" {
		address = servertest.DefinedRabbitMQ(t, repository).URL("/")
	}
	for _, user := range []string{orderService, notificationService} {
		conn, err := amqp.Dial(servertest.As(user, address))
		must(t, err)
		must(t, conn.Close())
	}
	for _, user := range []string{
		"guest",      // RabbitMQ's own, whose password everybody knows
		"outbox",     // this project's, before each service had its own
		"monitoring", // may look at the user interface, and has no rights on messages
	} {
		if conn, err := amqp.Dial(servertest.As(user, address)); err == nil {
			t.Errorf("%s gets in", user)
			_ = conn.Close()
		}
	}
}

// TestAServiceThatLeaksConnectionsIsStopped: a broker takes so many of each user.
func TestAServiceThatLeaksConnectionsIsStopped(t *testing.T) {
	t.Parallel()
	address := composeBroker
	if address == "" {
		address = servertest.DefinedRabbitMQ(t, repository).URL("/")
	}
	const limit = 60
	open := 0
	for ; open <= limit; open++ {
		conn, err := amqp.Dial(servertest.As(notificationService, address))
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	if open > limit || composeBroker == "" && open < limit {
		t.Errorf("%d connections at a time, want %d", open, limit)
	}
}

// TestP9ABrokerTakesNoMessageThatIsTooLarge: what the consumer keeps in memory is bounded
// where everybody publishes.
func TestP9ABrokerTakesNoMessageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	address := composeBroker
	if address == "" {
		address = servertest.DefinedRabbitMQ(t, repository).URL("/")
	}
	conn, err := amqp.Dial(servertest.As(orderService, address))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for size, refused := range map[int]bool{rabbitmq.MaxBody: false, rabbitmq.MaxBody + 1: true} {
		channel, err := conn.Channel()
		must(t, err)
		must(t, channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
		closed := channel.NotifyClose(make(chan *amqp.Error, 1))
		must(t, channel.Confirm(false))
		confirm, err := channel.PublishWithDeferredConfirm(exchange, "order.created", false, false, amqp.Publishing{Body: make([]byte, size)})
		must(t, err)
		if taken := confirm.Wait(); taken == refused {
			t.Errorf("%d bytes: taken is %t", size, taken)
		}
		if refused {
			if reason := <-closed; reason == nil || reason.Code != amqp.PreconditionFailed {
				t.Errorf("%d bytes: the channel closed over %v", size, reason)
			}
		}
	}
}
