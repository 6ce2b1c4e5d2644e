package system

import (
	"cmp"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

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
