package system

import (
	"slices"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
)

// TestP9OneBadMessageDuringAnAlarmDelaysNoOther has a memory alarm of the broker, and a
// malformed message at the head of the queue when the service starts. During the alarm, the
// broker confirms no copy of that message.
func TestP9OneBadMessageDuringAnAlarmDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newSystemOn(t, sharedDatabase, servers.RabbitMQ(t))
	bad, orders := []amqp.Publishing{malformed()}, newOrders(goodCount)
	s.startConsumer(quickRetries).kill()
	s.publish(append(slices.Clone(bad), orders...)...)
	s.setMemoryAlarm(true)
	s.wantProgressDuringAlarm(s.runNotifications(quickRetries), bad, orders)
}

// TestP9EightBadMessagesDuringAnAlarmDelayNoOther has one bad message for each worker, in a
// process that takes many messages at a time.
func TestP9EightBadMessagesDuringAnAlarmDelayNoOther(t *testing.T) {
	t.Parallel()
	s := newSystemOn(t, sharedDatabase, servers.RabbitMQ(t))
	running, first := s.startWarmConsumer(quickRetries)
	running.signal(syscall.SIGSTOP) // until all messages are in the queue and the alarm is on
	bad, orders := []amqp.Publishing{}, newOrders(goodCount)
	for range workers {
		bad = append(bad, malformed())
	}
	s.publish(append(slices.Clone(bad), orders...)...)
	s.setMemoryAlarm(true)
	running.signal(syscall.SIGCONT)
	s.wantProgressDuringAlarm(running, bad, append(orders, first))
}

// wantProgressDuringAlarm wants the service to send all orders while the broker confirms no
// copies, and to dead-letter the bad messages after the alarm.
func (s *system) wantProgressDuringAlarm(running *service, bad, orders []amqp.Publishing) {
	s.Helper()
	s.wantCount(shortTimeout, s.notificationsDB, len(orders), sentCount)
	s.wantDeadLetterCount(0, 0)
	running.wantWaitingCopies("dlq", float64(len(bad)))

	s.setMemoryAlarm(false)
	s.awaitDeadLetters(bad)
	s.wantCount(shortTimeout, s.notificationsDB, len(orders), sentCount)
	s.wantOneEmailEach(orders...)
	s.wantQueuesEmpty()
	running.wantNoWaitingCopies()
}
