package system

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// These are the exchanges and queues of the services.
const (
	eventsExchange = "outbox.events"

	mainQueue       = "notification-service"
	requeueExchange = "notification-service.requeue"
	retryPrefix     = "notification-service.retry." // before a delay: an exchange and a queue

	deadLetterQueue    = "notification-service.dlq"
	deadLetterExchange = "notification-service.dlx"
)

// createdKey is the routing key of the events that most tests publish.
const createdKey = "order.created"

// quickSettings are what every notification-service of a test begins with: delays that a test can
// wait for.
var quickSettings = []string{"RETRY_DELAYS=200ms,400ms,600ms", "RELAY_LEASE=5s"}

var quickTiers = []string{retryPrefix + "200ms", retryPrefix + "400ms", retryPrefix + "600ms"}

// openChannel opens a connection and a channel in confirm mode, until the test ends.
func (s *system) openChannel() *amqp.Channel {
	s.Helper()
	conn, channel := s.dial()
	s.Cleanup(func() { _ = conn.Close() })
	return channel
}

func (s *system) dial() (*amqp.Connection, *amqp.Channel) {
	s.Helper()
	conn, err := amqp.Dial(s.brokerURL)
	must(s.T, err)
	channel, err := conn.Channel()
	must(s.T, err)
	must(s.T, channel.Confirm(false))
	return conn, channel
}

// withChannel calls do with a channel in confirm mode, on a connection that it closes.
func (s *system) withChannel(do func(*amqp.Channel) error) {
	s.Helper()
	conn, channel := s.dial()
	defer func() { _ = conn.Close() }()
	must(s.T, do(channel))
}

// publishConfirmed publishes a mandatory message, and reports whether it was confirmed.
func publishConfirmed(c *amqp.Channel, exchange, key string, m amqp.Publishing) (confirmed bool, err error) {
	confirm, err := c.PublishWithDeferredConfirm(exchange, key, true, false, m)
	return err == nil && confirm.Wait(), err
}

// publishRouted also reports a message as unconfirmed when no queue was bound for it. The
// broker returns such a message before it confirms it.
func publishRouted(c *amqp.Channel, returned <-chan amqp.Return, key string, m amqp.Publishing) (routed bool, err error) {
	confirmed, err := publishConfirmed(c, eventsExchange, key, m)
	select {
	case <-returned:
		return false, err
	default:
		return confirmed, err
	}
}

func (s *system) vhost() string { return s.brokerURL[strings.LastIndex(s.brokerURL, "/")+1:] }

// declareExchange declares order-service's exchange, for tests that publish events
// themselves.
func (s *system) declareExchange() {
	s.Helper()
	s.withChannel(declareEventsExchange)
}

func declareEventsExchange(c *amqp.Channel) error {
	return c.ExchangeDeclare(eventsExchange, "topic", true, false, false, false, nil)
}
