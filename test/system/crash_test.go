package system

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP5P6P12SIGKILLAtEveryStep kills a process at one step, and lets another process go on.
func TestP5P6P12SIGKILLAtEveryStep(t *testing.T) {
	t.Parallel()
	for step, emails := range map[string]int{
		"consumer.arrived": 1,
		"effect.recorded":  1, // in the transaction
		"effect.committed": 1,
		"consumer.handled": 1,
		"relay.claimed":    1,
		// Only this step repeats an e-mail: the mail server has accepted it, but no row says so.
		"relay.confirmed": 2,
		"relay.marked":    1,
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			e := newEvents(1)[0]
			s.crashAt(step, e.publishing())
			next := s.startConsumer()
			s.awaitCount(s.notificationsDB, 1, sentCount)
			s.wantQueuesEmpty()
			s.wantEffects(1)
			all := s.mail.Copies()
			if got := all[e.messageID()]; got != emails || len(all) != 1 {
				t.Errorf("%d e-mails with the event's id, want %d; ids in all: %d", got, emails, len(all))
			}
			s.wantNothingFailed(next)
			next.awaitMetric(0, "consumer_messages_total", "outcome", "retried")
		})
	}
}

// crashAt runs a process that kills itself at a step of handling this message.
func (s *system) crashAt(step string, m amqp.Publishing) {
	s.Helper()
	s.declareExchange()
	binary, err := withCrashPoints()
	must(s.T, err)
	dying := s.runNotificationsBinary(binary, "CRASH_AT="+step)
	dying.awaitReadyz()
	s.publish(m)
	if !eventually(func() bool { return !dying.Alive() }) || !dying.WasKilled() {
		s.Fatal("it has not ended by SIGKILL")
	}
}
