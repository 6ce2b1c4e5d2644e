package system

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9DeadLetteringNeedsNoDatabase publishes a malformed message while the database is
// away.
func TestP9DeadLetteringNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]amqp.Publishing{
		"and the gate is open":   nil,
		"and the gate is closed": {orderFor("before@example.com")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			database, throughDatabase := s.databaseProxy()
			running, first := s.startWarmConsumer(quickRetries, throughDatabase)
			refuseConnections(database)
			if len(before) > 0 {
				s.publish(before...)
				running.awaitClosedGates("database")
			}
			bad := malformed()
			s.publish(bad)
			s.wantDeadLetterCount(8*time.Second, 1)

			admitConnections(database)
			s.awaitDeadLetters([]amqp.Publishing{bad})
			s.wantCount(shortTimeout, s.notificationsDB, 1+len(before), sentCount)
			s.wantOneEmailEach(append(before, first)...)
		})
	}
}
