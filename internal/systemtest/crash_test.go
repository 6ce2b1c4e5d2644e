package systemtest

import (
	"syscall"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP5P6P12SIGKILLAtEveryStepOfTheHandler lets a process die at one step, and another
// one take its message.
func TestP5P6P12SIGKILLAtEveryStepOfTheHandler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step    string
		leased  bool // the dead process still has the lease of the notification
		letters int
	}{
		{step: "consumer.arrived", letters: 1},
		{step: "consumer.recorded", letters: 1}, // in the transaction
		{step: "consumer.committed", letters: 1},
		{step: "notification.sending", letters: 1, leased: true},
		// The one step that repeats an e-mail: the server took it, and nobody wrote that down.
		{step: "notification.mailed", letters: 2, leased: true},
		{step: "notification.sent", letters: 1},
		{step: "consumer.completed", letters: 1},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			e := newEvents(1)[0]
			s.dieAt(c.step, e.publishing())

			next := s.runNotifications(quick)
			if c.leased {
				// It waits for whoever has the lease, and spends no retry on that.
				s.awaitOutcomes(1, []*service{next}, "retry")
				s.endLeases()
			}
			s.awaitOutcomes(1, []*service{next}, "success", "duplicate")
			s.wantEffect(e, c.letters)
			next.awaitMetric("consumer_retries_total", 0)
		})
	}
}

// wantEffect wants one row of the event, and so many e-mails with the same id.
func (s *system) wantEffect(e orderEvent, letters int) {
	s.Helper()
	for _, query := range []string{"SELECT count(*) FROM notifications", sent, "SELECT count(*) FROM processed_messages"} {
		if got := one[int](s, s.notifications, query); got != 1 {
			s.Errorf("%s counts to %d, want 1", query, got)
		}
	}
	all := s.mail.letters()
	if got := len(all[e.messageID()]); got != letters || len(all) != 1 {
		s.Errorf("%d e-mails with the event's id, want %d; ids in all: %d", got, letters, len(all))
	}
	s.wantNoneDead()
}

// dieAt runs a process until this message brings it to a step, where it kills itself.
func (s *system) dieAt(step string, m amqp.Publishing) {
	s.Helper()
	s.declareExchange()
	dying := s.runCrashing("CRASH_AT="+step, quick)
	dying.await("taking messages")
	s.emit(m)
	dying.wait()
	if status, ok := dying.command.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		s.Fatalf("it ended by %s, want by SIGKILL", dying.command.ProcessState)
	}
}

// endLeases stands for the 60 s after which a dead process has lost its leases.
func (s *system) endLeases() {
	s.Helper()
	_, err := s.notifications.Exec(s.Context(), "UPDATE notifications SET lease_until = now() WHERE status = 'sending'")
	must(s.T, err)
}

// TestP5P6P12SIGKILLBetweenACopyForARetryAndItsAck leaves two messages with one id.
func TestP5P6P12SIGKILLBetweenACopyForARetryAndItsAck(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	e := newEvents(1)[0]
	s.mail.refuse(e.address(), refused(451, 1))
	s.dieAt("consumer.copied", e.publishing())
	next := s.runNotifications(quick)
	s.awaitOutcomes(2, []*service{next}, "success", "duplicate")
	s.wantEffect(e, 1)
}

// TestP9P12SIGKILLBetweenADeadLetterAndItsAck repeats the dead letter, and loses nothing.
func TestP9P12SIGKILLBetweenADeadLetterAndItsAck(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	bad := amqp.Publishing{MessageId: uuid.NewString(), Type: "order.created", Body: []byte("{\"order_id\": \xff")}
	s.dieAt("consumer.copied", bad)
	next := s.runNotifications(quick)
	s.awaitOutcomes(1, []*service{next}, "dlq")
	for _, d := range s.take(deadLetters, 2) { // that of the dead process, and that of the next
		if d.MessageId != bad.MessageId || string(d.Body) != string(bad.Body) || d.RoutingKey != bad.Type {
			t.Errorf("the dead letter is %+v", d)
		}
	}
	if got := one[int](s, s.notifications, "SELECT count(*) FROM processed_messages"); got != 0 || len(s.mail.letters()) != 0 {
		t.Errorf("what nobody can read had an effect: %d rows, %d e-mails", got, len(s.mail.letters()))
	}
}
