package systemtest

import (
	"slices"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/servertest"
)

const good = 20 // messages that must not wait for the bad ones

// TestP9AFreshProcessGoesOnWhileABadMessageWaitsForItsCopy has a broker with a memory alarm,
// and a malformed message at the head of the queue when the service starts.
func TestP9AFreshProcessGoesOnWhileABadMessageWaitsForItsCopy(t *testing.T) {
	t.Parallel()
	g := withAlarm(t)
	bad, orders := []amqp.Publishing{malformed()}, ordersOf(good)
	g.consuming(quick).kill()
	g.emit(append(slices.Clone(bad), orders...)...)
	g.alarm(true)
	g.goesOnDuringTheAlarm(g.runNotifications(quick), bad, orders)
}

// TestP9EightBadMessagesThatWaitForTheirCopiesHoldUpNobody is the same with as many as there
// are workers, in a process that takes many messages at a time.
func TestP9EightBadMessagesThatWaitForTheirCopiesHoldUpNobody(t *testing.T) {
	t.Parallel()
	g := withAlarm(t)
	running, first := g.trusted(quick)
	running.signal(syscall.SIGSTOP) // until all is in the queue, and the alarm is there
	bad, orders := []amqp.Publishing{}, ordersOf(good)
	for range workers {
		bad = append(bad, malformed())
	}
	g.emit(append(slices.Clone(bad), orders...)...)
	g.alarm(true)
	running.signal(syscall.SIGCONT)
	g.goesOnDuringTheAlarm(running, bad, append(orders, first))
}

func withAlarm(t *testing.T) *gated {
	t.Helper()
	private := servertest.RabbitMQ(t)
	return &gated{system: newSystemOn(t, database, private), broker: private}
}

// goesOnDuringTheAlarm wants all orders to be sent while no copy can be made, and the copies
// after the alarm.
func (g *gated) goesOnDuringTheAlarm(running *service, bad, orders []amqp.Publishing) {
	g.Helper()
	g.wantCount(soon, g.notifications, len(orders), sent)
	g.wantDeadLetters(0, 0)
	running.wantWaitingCopies("dlq", float64(len(bad)))

	g.alarm(false)
	g.wantDead(bad)
	g.wantCount(soon, g.notifications, len(orders), sent)
	g.wantOneCopyEach(orders...)
	g.wantNothingLeft()
	running.wantNoWaitingCopies()
}

// wantNoWaitingCopies wants the service to say that no copy waits any more.
func (s *service) wantNoWaitingCopies() {
	s.Helper()
	waiting := 0.0
	if !within(soon/3, func() bool { waiting, _ = s.series("consumer_copies_waiting"); return waiting == 0 }) {
		s.Errorf("%v copies wait, and all were made", waiting)
	}
}
