package system

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
)

// TestP9FailedCopiesLoseNoMessage deletes the targets of copies. The service declares them
// again, and failed messages wait until then.
func TestP9FailedCopiesLoseNoMessage(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders, bad := s.mixedMessages(5)
	running := s.startConsumer(quickRetries)
	s.deleteExchange(deadLetterExchange)
	s.deleteQueue(quickTiers[0])
	s.publish(append(orders, bad...)...)
	running.awaitLog("no copy yet, trying again")
	s.awaitCount(s.notificationsDB, len(orders), sentCount)
	s.wantOneEmailEach(orders...)
	s.awaitDeadLetters(bad)
}

// TestP9AnAlarmDelaysOnlyFailedMessages has a memory alarm: the broker confirms no copies but
// still delivers messages.
func TestP9AnAlarmDelaysOnlyFailedMessages(t *testing.T) {
	t.Parallel()
	const each = 5
	s := newSystemOn(t, sharedDatabase, servers.RabbitMQ(t))
	orders, bad := s.mixedMessages(each)
	s.startConsumer(quickRetries).kill()
	s.publish(append(orders, bad...)...)
	s.setMemoryAlarm(true)
	running := s.runNotifications(quickRetries)
	s.awaitCount(s.notificationsDB, each, sentCount)
	running.awaitLog("no copy yet, trying again")
	s.awaitInMainQueue(2 * each)

	s.setMemoryAlarm(false)
	s.awaitCount(s.notificationsDB, len(orders), sentCount)
	s.wantOneEmailEach(orders...)
	s.awaitDeadLetters(bad)
}

// mixedMessages returns orders, of which one half needs a retry, and malformed messages.
func (s *system) mixedMessages(each int) (orders, bad []amqp.Publishing) {
	s.Helper()
	for i := range 2 * each {
		orders = append(orders, orderFor(fmt.Sprintf("customer-%d@example.com", i)))
		if i >= each {
			s.mail.refuse(fmt.Sprintf("customer-%d@example.com", i), refused(451, 1))
		}
	}
	for range each {
		m := orderFor("nobody")
		bad = append(bad, m)
	}
	return orders, bad
}
