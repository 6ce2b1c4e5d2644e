package system

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declareBoundQueue declares a quorum queue and binds it to the events by a key.
func (s *system) declareBoundQueue(queue, key string, arguments amqp.Table) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		if err := declareEventsExchange(c); err != nil {
			return err
		}
		if err := declareQueueOfType(c, queue, amqp.QueueTypeQuorum, arguments); err != nil {
			return err
		}
		return c.QueueBind(queue, key, eventsExchange, false, nil)
	})
}

func declareQueueOfType(c *amqp.Channel, queue, kind string, arguments amqp.Table) error {
	all := amqp.Table{amqp.QueueTypeArg: kind}
	maps.Copy(all, arguments)
	_, err := c.QueueDeclare(queue, true, false, false, false, all)
	return err
}

func (s *system) deleteQueue(queue string) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		_, err := c.QueueDelete(queue, false, false, false)
		return err
	})
}

func (s *system) deleteExchange(exchange string) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error { return c.ExchangeDelete(exchange, false, false) })
}

// fillQueue publishes messages to a queue until it rejects one.
func (s *system) fillQueue(queue string) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		for range 100 {
			if confirmed, err := publishConfirmed(c, "", queue, amqp.Publishing{}); err != nil || !confirmed {
				return err
			}
		}
		return fmt.Errorf("%s does not fill", queue)
	})
}

// readyMessages counts the messages in a queue that are not delivered to a consumer.
func (s *system) readyMessages(queue string) (n int) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		q, err := c.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n
}

// listObjects asks rabbitmqctl for columns of the objects of one kind.
func (s *system) listObjects(kind string, columns ...string) (rows []map[string]any) {
	s.Helper()
	output, err := s.broker.Ctl(s.Context(), append([]string{"list_" + kind, "--formatter", "json", "-p", s.vhost()}, columns...)...)
	must(s.T, err)
	if err := json.Unmarshal([]byte(output), &rows); err != nil {
		s.Fatalf("%v: %s", err, output)
	}
	return rows
}

// awaitQueueDrained waits until the consumer's queue has no messages, delivered or not.
func (s *system) awaitQueueDrained() {
	s.Helper()
	var queues []map[string]any
	if !poll(100*time.Millisecond, awaitTimeout, func() bool {
		queues = s.listObjects("queues", "name", "messages")
		for _, q := range queues {
			if q["name"] == mainQueue {
				return q["messages"] == 0.0
			}
		}
		return false
	}) {
		s.Fatalf("%s does not drain: %v", mainQueue, queues)
	}
}

// wantQueuesEmpty wants all queues but the dead letters to become empty. After that, no
// message can cause an e-mail.
func (s *system) wantQueuesEmpty() {
	s.Helper()
	var left string
	if !eventually(awaitTimeout, func() bool {
		left = ""
		for _, q := range s.listObjects("queues", "name", "messages_ready", "messages_unacknowledged") {
			if q["name"] != deadLetterQueue && (q["messages_ready"] != 0.0 || q["messages_unacknowledged"] != 0.0) {
				left += fmt.Sprint(q)
			}
		}
		return left == ""
	}) {
		s.Errorf("the queues still have %s", left)
	}
}

// takeMessages takes all messages from a queue, and wants exactly n.
func (s *system) takeMessages(queue string, n int) (messages []amqp.Delivery) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) (err error) {
		poll(20*time.Millisecond, awaitTimeout, func() bool {
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

// setMemoryAlarm turns the broker's memory alarm on or off. Use it only with a private
// broker: while the alarm is on, the broker blocks all publishers.
func (s *system) setMemoryAlarm(on bool) {
	s.Helper()
	limit := []string{"0.4"}
	if on {
		limit = []string{"absolute", "1MB"}
	}
	_, err := s.broker.Ctl(s.Context(), append([]string{"set_vm_memory_high_watermark"}, limit...)...)
	must(s.T, err)
}
