package systemtest

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ADatabaseThatIsAwayHoldsUpNoDeadLetter has a message that nobody can read: what
// becomes of it needs no database.
func TestP9ADatabaseThatIsAwayHoldsUpNoDeadLetter(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]amqp.Publishing{
		"and the gate is open":   nil,
		"and the gate is closed": {orderOf("before@example.com")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			database, throughDatabase := s.before("database")
			running, first := s.trusted(quick, throughDatabase)
			refuse(database)
			if len(before) > 0 {
				s.emit(before...)
				running.awaitGates(map[string]float64{"database": 1})
			}
			bad := malformed()
			s.emit(bad)
			s.wantDeadLetters(8*time.Second, 1)

			admit(database)
			s.wantDead([]amqp.Publishing{bad})
			s.wantCount(soon, s.notifications, 1+len(before), sent)
			s.wantOneCopyEach(append(before, first)...)
		})
	}
}
