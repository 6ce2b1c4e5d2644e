package system

import (
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// recorder keeps a copy of every message that some exchanges get.
type recorder struct {
	*testing.T
	mu       sync.Mutex
	messages []amqp.Delivery
	changed  *sync.Cond
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

// record records the messages of a temporary queue.
func (s *system) record(bind func(channel *amqp.Channel, queue string)) *recorder {
	s.Helper()
	r := &recorder{T: s.T}
	r.changed = sync.NewCond(&r.mu)
	channel := s.openChannel()
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
			r.changed.Broadcast()
		}
	}()
	return r
}

// await waits for n messages, and returns all so far.
func (r *recorder) await(n int) []amqp.Delivery {
	r.Helper()
	deadline := time.Now().Add(awaitTimeout)
	timer := time.AfterFunc(awaitTimeout, r.changed.Broadcast)
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.messages) < n {
		if time.Now().After(deadline) {
			r.Fatalf("%d copies came, want %d", len(r.messages), n)
		}
		r.changed.Wait()
	}
	return slices.Clone(r.messages)
}

// copiesOf returns the copies so far of one message.
func (r *recorder) copiesOf(id string) []amqp.Delivery {
	return slices.DeleteFunc(r.await(0), func(d amqp.Delivery) bool { return d.MessageId != id })
}
