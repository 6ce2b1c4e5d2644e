package system

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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

// withChannel calls do with a channel in confirm mode, on a connection that it closes.
func (s *system) withChannel(do func(*amqp.Channel) error) {
	s.Helper()
	conn, channel := s.dial()
	defer func() { _ = conn.Close() }()
	must(s.T, do(channel))
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

// declareBoundQueue declares a quorum queue and binds it to the events by a key.
func (s *system) declareBoundQueue(queue, key string, arguments amqp.Table) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		if err := declareEventsExchange(c); err != nil {
			return err
		}
		if _, err := c.QueueDeclare(queue, true, false, false, false, merge(quorum, arguments)); err != nil {
			return err
		}
		return c.QueueBind(queue, key, eventsExchange, false, nil)
	})
}

var quorum = amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}

func merge(tables ...amqp.Table) amqp.Table {
	all := amqp.Table{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

// publish publishes events, and waits until the broker has confirmed all of them.
func (s *system) publish(messages ...amqp.Publishing) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		var confirms []*amqp.DeferredConfirmation
		for _, m := range messages {
			confirm, err := c.PublishWithDeferredConfirm(eventsExchange, m.Type, true, false, m)
			if err != nil {
				return err
			}
			confirms = append(confirms, confirm)
		}
		for _, confirm := range confirms {
			ctx, cancel := context.WithTimeout(s.Context(), awaitTimeout)
			confirmed, err := confirm.WaitContext(ctx)
			cancel()
			if !confirmed {
				return fmt.Errorf("message %d is not confirmed: %w", confirm.DeliveryTag, err)
			}
		}
		return nil
	})
}

// takeMessages takes all messages from a queue, and wants exactly n.
func (s *system) takeMessages(queue string, n int) (messages []amqp.Delivery) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) (err error) {
		eventually(func() bool {
			for {
				d, ok, getErr := c.Get(queue, true)
				if err = getErr; err != nil || !ok {
					return err != nil || len(messages) >= n
				}
				messages = append(messages, d)
			}
		})
		return err
	})
	if len(messages) != n {
		s.Fatalf("%d messages in %s, want %d", len(messages), queue, n)
	}
	return messages
}

// wantQueuesEmpty wants all queues but the dead letters to become empty. After that, no
// message can cause an e-mail.
func (s *system) wantQueuesEmpty() {
	s.Helper()
	var left string
	if !eventually(func() bool {
		output, err := s.broker.Ctl(s.Context(), "list_queues", "--formatter", "json", "-p", s.vhost(), "name", "messages_ready", "messages_unacknowledged")
		must(s.T, err)
		var queues []struct {
			Name    string
			Ready   int `json:"messages_ready"`
			Unacked int `json:"messages_unacknowledged"`
		}
		must(s.T, json.Unmarshal([]byte(output), &queues))
		left = ""
		for _, q := range queues {
			if q.Name != deadLetterQueue && q.Ready+q.Unacked > 0 {
				left += fmt.Sprint(q)
			}
		}
		return left == ""
	}) {
		s.Errorf("the queues still have %s", left)
	}
}

// recorder keeps a copy of every message that some exchanges get.
type recorder struct {
	*system
	mu       sync.Mutex
	messages []amqp.Delivery
}

// recordExchanges binds a temporary queue to fanout exchanges. It declares the exchanges,
// so a test may call it before the service starts.
func (s *system) recordExchanges(exchanges ...string) *recorder {
	s.Helper()
	return s.record(func(channel *amqp.Channel, queue string) {
		for _, exchange := range exchanges {
			must(s.T, channel.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
			must(s.T, channel.QueueBind(queue, "", exchange, false, nil))
		}
	})
}

// recordEvents records every event from now on, in the order in which the broker gets them.
func (s *system) recordEvents() *recorder {
	s.Helper()
	return s.record(func(channel *amqp.Channel, queue string) {
		must(s.T, declareEventsExchange(channel))
		must(s.T, channel.QueueBind(queue, "#", eventsExchange, false, nil))
	})
}

// record records the messages of a temporary queue, until the test ends.
func (s *system) record(bind func(channel *amqp.Channel, queue string)) *recorder {
	s.Helper()
	r := &recorder{system: s}
	conn, channel := s.dial()
	s.Cleanup(func() { _ = conn.Close() })
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	must(s.T, err)
	bind(channel, queue.Name)
	deliveries, err := channel.Consume(queue.Name, "", true, true, false, false, nil)
	must(s.T, err)
	go func() {
		for d := range deliveries {
			r.mu.Lock()
			r.messages = append(r.messages, d)
			r.mu.Unlock()
		}
	}()
	return r
}

// await waits for n messages, and returns all so far.
func (r *recorder) await(n int) []amqp.Delivery {
	r.Helper()
	if !eventually(func() bool { return len(r.all()) >= n }) {
		r.Fatalf("%d copies came, want %d", len(r.all()), n)
	}
	return r.all()
}

func (r *recorder) all() []amqp.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}
