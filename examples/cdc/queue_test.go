package main

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// queue is a durable queue that is bound to the relay's exchange.
type queue struct{ name string }

// withChannel connects for one use: a test may have restarted the broker.
func withChannel(t *testing.T, use func(*amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(shared.Broker.URL("/"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		err = use(ch)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newQueue(t *testing.T, name, key string, arguments amqp.Table) queue {
	t.Helper()
	withChannel(t, func(ch *amqp.Channel) error {
		if err := ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
			return err
		}
		if _, err := ch.QueueDeclare(name, true, false, false, false, arguments); err != nil {
			return err
		}
		return ch.QueueBind(name, key, exchange, false, nil)
	})
	t.Cleanup(func() {
		withChannel(t, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(name, false, false, false)
			return err
		})
	})
	return queue{name}
}

// received is a message of this test.
type received struct {
	id      uuid.UUID
	order   uuid.UUID
	version int
}

// receive takes all messages of the test's events out of the queue.
func (s *system) receive() (all []received) {
	s.Helper()
	withChannel(s.T, func(ch *amqp.Channel) error {
		for {
			m, ok, err := ch.Get(s.queue.name, true)
			if err != nil || !ok {
				return err
			}
			r := received{id: uuid.MustParse(m.MessageId)}
			if !s.ids[r.id] {
				continue // of another test
			}
			var body struct {
				OrderID uuid.UUID `json:"order_id"`
				Version int       `json:"order_version"`
			}
			if err := json.Unmarshal(m.Body, &body); err != nil {
				return err
			}
			r.order, r.version = body.OrderID, body.Version
			all = append(all, r)
		}
	})
	return all
}

// wantOnceAndInOrder checks that each event of the test arrived once, and those of an order by
// version.
func (s *system) wantOnceAndInOrder() {
	s.Helper()
	times, last := map[uuid.UUID]int{}, map[uuid.UUID]int{}
	for _, r := range s.receive() {
		if times[r.id]++; r.version != last[r.order]+1 {
			s.Errorf("order %s: version %d came after %d", r.order, r.version, last[r.order])
		}
		last[r.order] = r.version
	}
	for id := range s.ids {
		if times[id] != 1 {
			s.Errorf("event %s arrived %d times", id, times[id])
		}
	}
}
