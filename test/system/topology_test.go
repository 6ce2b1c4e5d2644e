package system

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// tier is a retry queue: its delay as in its name, and in milliseconds.
type tier struct {
	name string
	ttl  int
}

// TestP8TheServiceDeclaresExactlyItsTopology compares the broker's objects after a second
// start with the documented topology.
func TestP8TheServiceDeclaresExactlyItsTopology(t *testing.T) {
	t.Parallel()
	for settings, tiers := range map[string][]tier{
		"RETRY_DELAYS=30s,1m,5m": {{"30s", 30_000}, {"1m", 60_000}, {"5m", 300_000}},
		"RETRY_DELAYS=250ms,1h":  {{"250ms", 250}, {"1h", 3_600_000}},
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.startConsumer(settings).stop()
			s.startConsumer(settings) // the broker refuses a declaration that differs
			wantLines(t, s.topology(), topologyOf(50, tiers...))
		})
	}
}

// TestP8DeletedTopologyIsDeclaredAgain deletes parts of the topology while the service runs.
// The broker does not report this to the service.
func TestP8DeletedTopologyIsDeclaredAgain(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	service := s.startConsumer("RETRY_DELAYS=30s,1m,5m")
	want := s.topology()
	s.withChannel(func(c *amqp.Channel) error {
		_, err := c.QueueDelete(retryPrefix+"1m", false, false, false)
		must(t, c.ExchangeDelete(deadLetterExchange, false, false))
		must(t, c.ExchangeDelete(retryPrefix+"30s", false, false))
		must(t, c.ExchangeDelete(requeueExchange, false, false))
		must(t, c.QueueUnbind(mainQueue, "order.confirmed", eventsExchange, nil))
		return err
	})
	s.awaitRoute("order.confirmed") // the last thing that is declared
	wantLines(t, s.topology(), want)
	s.publish(newOrders(3)...)
	s.awaitCount(s.notificationsDB, 3, sentCount)
	if got := len(service.logLines("connected to the broker")); got != 2 {
		t.Errorf("%d connections, want only the first two", got)
	}
}

// TestAQueueWithOtherArgumentsIsNamed declares objects as another program would, or as this service
// would with other settings. The service says what is wrong, and waits until it is deleted.
func TestAQueueWithOtherArgumentsIsNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object, argument string
		declare          func(*amqp.Channel) error
	}{
		"a retry queue with another delay": {retryPrefix + "30s", "x-message-ttl", func(c *amqp.Channel) error {
			return declareQueueOfType(c, retryPrefix+"30s", "quorum", deadLetterArguments(requeueExchange, amqp.Table{"x-message-ttl": 31_000}))
		}},
		"the queue with another delivery limit": {mainQueue, "x-delivery-limit", func(c *amqp.Channel) error {
			return declareQueueOfType(c, mainQueue, "quorum", deadLetterArguments(deadLetterExchange, amqp.Table{"x-delivery-limit": 3}))
		}},
		"the queue with a less safe strategy": {mainQueue, "x-dead-letter-strategy", func(c *amqp.Channel) error {
			arguments := deadLetterArguments(deadLetterExchange, amqp.Table{"x-delivery-limit": 50})
			delete(arguments, "x-dead-letter-strategy")
			return declareQueueOfType(c, mainQueue, "quorum", arguments)
		}},
		"a classic dead-letter queue": {deadLetterQueue, "x-queue-type", func(c *amqp.Channel) error {
			return declareQueueOfType(c, deadLetterQueue, "classic", nil)
		}},
		"an exchange of another type": {requeueExchange, "type", func(c *amqp.Channel) error {
			return c.ExchangeDeclare(requeueExchange, "topic", true, false, false, false, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.declareExchange()
			s.withChannel(test.declare)
			service := s.runNotifications("RETRY_DELAYS=30s,1m,5m")
			line := service.awaitLog("the broker has something of this name with other properties, trying again")
			for _, word := range []string{"'" + test.object + "'", "'" + test.argument + "'", "delete it"} {
				if text := fmt.Sprint(line["error"]); !strings.Contains(text, word) {
					t.Errorf("the error is %q, without %s", text, word)
				}
			}
			if test.argument == "type" {
				s.deleteExchange(test.object)
			} else {
				s.deleteQueue(test.object)
			}
			service.awaitReadyz()
		})
	}
}

// awaitRoute waits until a queue is bound for a key. The service checks every 10 s.
func (s *system) awaitRoute(key string) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) (err error) {
		returned := c.NotifyReturn(make(chan amqp.Return, 1))
		routed := false
		if eventually(awaitTimeout, func() bool {
			routed, err = publishRouted(c, returned, key, amqp.Publishing{})
			return routed || err != nil
		}) {
			return err
		}
		return fmt.Errorf("no queue is bound for %s", key)
	})
}
