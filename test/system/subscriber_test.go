package system

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// subscriber has a queue that gets a copy of every event, and counts the copies.
type subscriber struct {
	*testing.T

	mu     sync.Mutex
	copies map[string]int // by message id
}

// subscribe binds a temporary queue to all events, from now on. It declares the exchange,
// so a test may call it before order-service starts.
func (s *system) subscribe() *subscriber {
	s.Helper()
	channel := s.openChannel()
	must(s.T, declareEventsExchange(channel))
	queue, err := channel.QueueDeclare("", true, false, true, false, nil)
	must(s.T, err)
	must(s.T, channel.QueueBind(queue.Name, "#", eventsExchange, false, nil))
	return s.consume(channel, queue.Name)
}

// auditQueue is a durable queue for a copy of every event. It survives a restart of the
// broker; the queue of subscribe does not.
const auditQueue = "audit"

// bindAuditQueue declares the audit queue and binds it to all events. It may be repeated.
func (s *system) bindAuditQueue() {
	s.Helper()
	s.declareBoundQueue(auditQueue, "#", nil)
}

// readAuditQueue consumes the audit queue.
func (s *system) readAuditQueue() *subscriber {
	s.Helper()
	return s.consume(s.openChannel(), auditQueue)
}

func (s *system) consume(channel *amqp.Channel, queue string) *subscriber {
	s.Helper()
	b := &subscriber{T: s.T, copies: map[string]int{}}
	deliveries, err := channel.Consume(queue, "", true, true, false, false, nil)
	must(s.T, err)
	go func() {
		for d := range deliveries {
			b.mu.Lock()
			b.copies[d.MessageId]++
			b.mu.Unlock()
		}
	}()
	return b
}

// awaitMessages waits for n different messages.
func (b *subscriber) awaitMessages(n int) {
	b.Helper()
	if !poll(10*time.Millisecond, awaitTimeout, func() bool { return b.messages() >= n }) {
		b.Fatalf("%d messages, want %d", b.messages(), n)
	}
}

func (b *subscriber) messages() int { return len(b.ids()) }

func (b *subscriber) ids() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.copies))
}

// repeats counts the copies beyond the first of each message.
func (b *subscriber) repeats() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, copies := range b.copies {
		n += copies - 1
	}
	return n
}

// wantAuditQueueComplete wants the relay to publish every order of the load, the audit
// queue to have every published event, and no event to have used an attempt.
func (s *system) wantAuditQueueComplete(l *load) {
	s.Helper()
	events := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM outbox_status")
	s.awaitCount(s.ordersDB, events, publishedCount)
	copies := s.readAuditQueue()
	copies.awaitMessages(events)
	if lost := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM outbox_status WHERE NOT id = ANY ($1::uuid[])", copies.ids()); lost != 0 {
		s.Errorf("%d events are marked as published but are not in the queue", lost)
	}
	if known := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM outbox_status WHERE aggregate_id = ANY ($1::text[])", l.placed); known != l.count() || known == 0 {
		s.Errorf("%d events of %d orders", known, l.count())
	}
	if n := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM outbox_status WHERE failed_at IS NOT NULL"); n != 0 {
		s.Errorf("%d events failed, want none", n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures != nil {
		s.Errorf("%d orders were not placed: %v", len(l.failures), l.failures[0])
	}
	s.Logf("%d events, %d copies beyond the first", events, copies.repeats())
}
