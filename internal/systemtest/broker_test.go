package systemtest

import (
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// tap is a queue of the test's own that gets a copy of every event.
type tap struct {
	*testing.T
	conn *amqp.Connection

	mu     sync.Mutex
	copies map[string]int // by message id
	last   amqp.Delivery
}

const exchange = "outbox.events"

// tap binds to everything that order-service publishes. The exchange is declared
// here as order-service does it, so that the tap may come first.
func (s *system) tap() *tap {
	s.Helper()
	p := &tap{T: s.T, copies: map[string]int{}}
	channel := p.dial(s.brokerURL)
	must(s.T, channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	queue, err := channel.QueueDeclare("", true, false, true, false, nil)
	must(s.T, err)
	must(s.T, channel.QueueBind(queue.Name, "#", exchange, false, nil))
	p.consume(channel, queue.Name)
	return p
}

func (p *tap) consume(channel *amqp.Channel, queue string) {
	p.Helper()
	deliveries, err := channel.Consume(queue, "", true, true, false, false, nil)
	must(p.T, err)
	go func() {
		for d := range deliveries {
			p.mu.Lock()
			p.copies[d.MessageId]++
			p.last = d
			p.mu.Unlock()
		}
	}()
}

func (p *tap) dial(url string) *amqp.Channel {
	p.Helper()
	var err error
	p.conn, err = amqp.Dial(url)
	must(p.T, err)
	p.Cleanup(func() { _ = p.conn.Close() })
	channel, err := p.conn.Channel()
	must(p.T, err)
	must(p.T, channel.Confirm(false))
	return channel
}

// awaitMessages waits until n different messages have come.
func (p *tap) awaitMessages(n int) {
	p.Helper()
	ask := time.NewTicker(10 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); p.messages() < n; <-ask.C {
		if time.Now().After(deadline) {
			p.Fatalf("%d messages, want %d", p.messages(), n)
		}
	}
}

func (p *tap) messages() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.copies)
}

// repeats returns how many copies came beyond the first of each message.
func (p *tap) repeats() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, copies := range p.copies {
		n += copies - 1
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *system) vhost() string { return s.brokerURL[strings.LastIndex(s.brokerURL, "/")+1:] }

// awaitIdle waits until the service's queue is empty and nothing of it is in hand:
// a second consumer's count would be off, the broker's own is not.
func (s *system) awaitIdle() {
	s.Helper()
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		output, err := s.broker.Ctl(s.Context(), "list_queues", "-q", "-p", s.vhost(), "name", "messages")
		must(s.T, err)
		if strings.Contains(output, "notification-service\t0") {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("the queue does not drain: %s", output)
		}
	}
}
