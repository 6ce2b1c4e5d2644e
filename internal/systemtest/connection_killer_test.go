package systemtest

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// nested is a header of so many tables, one in the other. Go's client writes it, and closes
// the connection when it reads more than 32.
func nested(depth int) (table amqp.Table) {
	for range depth {
		table = amqp.Table{"t": table}
	}
	return table
}

// TestP9AMessageThatEndsEachSessionHoldsUpNobody has a message that no client library in Go
// can read before twenty good ones, and two replicas.
func TestP9AMessageThatEndsEachSessionHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	replicas := []*service{s.consuming(quick), s.consuming(quick)}
	warm := s.trustAll(replicas)
	before := len(warm)
	killer, orders := orderOf("killer@example.com"), ordersOf(good)
	killer.Headers = nested(64)
	s.emit(append([]amqp.Publishing{killer}, orders...)...)

	s.wantCount(15*time.Second, s.notifications, before+good, sent)
	s.wantDeadLetters(50*time.Second, 1)
	for i, replica := range replicas {
		t.Logf("replica %d had %d sessions", i, len(replica.all("taking messages")))
	}
	if t.Failed() {
		return
	}
	s.wantNothingLeft()
	s.wantOneCopyEach(append(orders, warm...)...)
	s.wantDeadLetters(0, 1)
}

// trustAll sends e-mails until each process takes many messages at a time.
func (s *system) trustAll(processes []*service) (orders []amqp.Publishing) {
	s.Helper()
	for slices.ContainsFunc(processes, func(p *service) bool { return outcomes([]*service{p}, "success") == 0 }) {
		more := orderOf("warm@example.com")
		s.emit(more)
		orders = append(orders, more)
		s.awaitOutcomes(len(orders), processes, "success")
	}
	return orders
}
