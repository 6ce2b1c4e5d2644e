package system

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sendSlowly starts notification-service and waits until four e-mails wait for a reply that is
// delayed. It returns all orders. Each further e-mail is sent to arrived.
func (s *system) sendSlowly() (running *service, all []amqp.Publishing, arrived <-chan string) {
	s.Helper()
	running, first := s.startWarmConsumer(quickRetries)
	arrived, orders := s.mail.delayReplies(s.T), newOrders(4)
	s.publish(orders...)
	for range orders {
		<-arrived
	}
	return running, append(orders, first), arrived
}

// TestP6ASlowMailServerGetsEachEmailOnce has a server that replies after 25 s.
func TestP6ASlowMailServerGetsEachEmailOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, orders, arrived := s.sendSlowly()
	again := 0
	s.wantCountUnless(replyDelay+20*time.Second, len(orders), func() bool { again = len(arrived); return again > 0 })
	if again > 0 {
		t.Errorf("the mail server got %d e-mails twice", again)
		return
	}
	s.wantQueuesEmpty()
	s.wantOneEmailEach(orders...)
	s.wantNoDeadLetters()
}

// wantCountUnless waits until n e-mails are marked as sent, or stop returns true.
func (s *system) wantCountUnless(limit time.Duration, n int, stop func() bool) {
	s.Helper()
	got := 0
	done := eventually(limit, func() bool { got = queryValue[int](s, s.notificationsDB, sentCount); return got == n || stop() })
	if !done {
		s.Errorf("after %s: %d e-mails are marked as sent, want %d", limit, got, n)
	}
}

// TestP12SIGTERMWithASlowMailServerEndsIn20s stops the service while its e-mails wait for a
// reply that takes longer than the shutdown may take.
func TestP12SIGTERMWithASlowMailServerEndsIn20s(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	running, _, _ := s.sendSlowly()
	running.wantShutdownIn20s()
	s.wantNoDeadLetters()
}
