package system

import (
	"syscall"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP5P6P12SIGKILLAtEveryStepOfTheHandler kills a process at one step, and lets another
// process take its message.
func TestP5P6P12SIGKILLAtEveryStepOfTheHandler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step   string
		leased bool // the dead process still holds the lease of the notification
		emails int
	}{
		{step: "consumer.arrived", emails: 1},
		{step: "consumer.recorded", emails: 1}, // in the transaction
		{step: "consumer.committed", emails: 1},
		{step: "notification.sending", emails: 1, leased: true},
		// Only this step repeats an e-mail: the mail server accepted it, but no row says so.
		{step: "notification.mailed", emails: 2, leased: true},
		{step: "notification.sent", emails: 1},
		{step: "consumer.completed", emails: 1},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			e := newEvents(1)[0]
			s.crashAt(c.step, e.publishing())

			next := s.runNotifications(quickRetries)
			if c.leased {
				// The next process waits for the end of the lease, and counts no retry.
				s.awaitOutcomes(1, []*service{next}, "retry")
				s.expireLeases()
			}
			s.awaitOutcomes(1, []*service{next}, "success", "duplicate")
			s.wantEffect(e, c.emails)
			next.awaitMetric("consumer_retries_total", 0)
		})
	}
}

// wantEffect wants one row of the event in each table, and so many e-mails with its id.
func (s *system) wantEffect(e orderEvent, emails int) {
	s.Helper()
	s.wantEffects(1)
	all := s.mail.emails()
	if got := len(all[e.messageID()]); got != emails || len(all) != 1 {
		s.Errorf("%d e-mails with the event's id, want %d; ids in all: %d", got, emails, len(all))
	}
	s.wantNoDeadLetters()
}

// crashAt runs a process that kills itself at a step of handling this message.
func (s *system) crashAt(step string, m amqp.Publishing) {
	s.Helper()
	s.declareExchange()
	dying := s.runWithCrashPoints("CRASH_AT="+step, quickRetries)
	dying.awaitLog("taking messages")
	s.publish(m)
	dying.wait()
	if status, ok := dying.command.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		s.Fatalf("it ended by %s, want by SIGKILL", dying.command.ProcessState)
	}
}

// TestP5P6P12SIGKILLBetweenRetryCopyAndAck leaves two messages with the same id.
func TestP5P6P12SIGKILLBetweenRetryCopyAndAck(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	e := newEvents(1)[0]
	s.mail.refuse(e.address(), refused(451, 1))
	s.crashAt("consumer.copied", e.publishing())
	next := s.runNotifications(quickRetries)
	s.awaitOutcomes(2, []*service{next}, "success", "duplicate")
	s.wantEffect(e, 1)
}

// TestP9P12SIGKILLBetweenDeadLetterCopyAndAck repeats the dead letter but loses nothing.
func TestP9P12SIGKILLBetweenDeadLetterCopyAndAck(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	bad := amqp.Publishing{MessageId: uuid.NewString(), Type: "order.created", Body: []byte("{\"order_id\": \xff")}
	s.crashAt("consumer.copied", bad)
	next := s.runNotifications(quickRetries)
	s.awaitOutcomes(1, []*service{next}, "dlq")
	for _, d := range s.takeMessages(deadLetterQueue, 2) { // one copy of each process
		if d.MessageId != bad.MessageId || string(d.Body) != string(bad.Body) || d.RoutingKey != bad.Type {
			t.Errorf("the dead letter is %+v", d)
		}
	}
	if got := queryValue[int](s, s.notificationsDB, "SELECT count(*) FROM processed_messages"); got != 0 || len(s.mail.emails()) != 0 {
		t.Errorf("a malformed message had an effect: %d rows, %d e-mails", got, len(s.mail.emails()))
	}
}

// expireLeases ends the leases of a dead process at once. Without it, a test would wait
// 60 s.
func (s *system) expireLeases() {
	s.Helper()
	_, err := s.notificationsDB.Exec(s.Context(), "UPDATE notifications SET lease_until = now() WHERE status = 'sending'")
	must(s.T, err)
}
