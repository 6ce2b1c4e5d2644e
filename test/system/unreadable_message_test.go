package system

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// nestedTables returns a header with tables inside tables. The Go client can write any
// depth, but it closes the connection when it reads more than 32.
func nestedTables(depth int) (table amqp.Table) {
	for range depth {
		table = amqp.Table{"t": table}
	}
	return table
}

// TestP9AMessageThatClosesConnectionsDelaysNoOther has two replicas, and publishes a message
// that the Go client cannot read before twenty good ones.
func TestP9AMessageThatClosesConnectionsDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	replicas := []*service{s.startConsumer(), s.startConsumer()}
	unreadable, orders := orderFor("unreadable@example.com"), newOrders(goodCount)
	unreadable.Headers = nestedTables(64)
	s.publish(append([]amqp.Publishing{unreadable}, orders...)...)

	s.wantCount(awaitTimeout, s.notificationsDB, goodCount, sentCount)
	s.wantDeadLetterCount(awaitTimeout, 1)
	for i, replica := range replicas {
		t.Logf("replica %d had %d sessions", i, len(replica.logLines("connected to the broker")))
	}
	if t.Failed() {
		return
	}
	s.wantQueuesEmpty()
	s.wantOneEmailEach(orders...)
	s.wantDeadLetterCount(0, 1)
}
