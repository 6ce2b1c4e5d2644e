package systemtest

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP5P6ADuplicateOfARefusedMessageChangesNothing publishes a message again whose recipient
// was refused for good, as `outbox republish` does. Only an operator's replay tries it again.
func TestP5P6ADuplicateOfARefusedMessageChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	mail := s.scriptMail()
	running, first := s.trusted(quick)
	bad := orderOf("bad@example.com")
	mail.answer(onlyFor("bad@example.com", refuseAll(550, 5, 1, 1)), accept)
	s.emit(bad)
	s.wantDeadLetters(soon, 1)
	asked := mail.asked.Load()

	s.emit(bad)
	s.awaitOutcomes(3, []*service{running}, "success", "duplicate", "dlq")
	if again := mail.asked.Load() - asked; again != 0 {
		t.Errorf("the mail server was asked %d times more for a recipient that it refuses", again)
	}
	s.wantDeadLetters(time.Second, 1)

	mail.takeAll()
	s.deadLetterCommand("replay", bad.MessageId)
	s.wantCount(soon, s.notifications, 2, sent)
	s.wantDeadLetters(time.Second, 0)
	s.wantOneCopyEach(bad, first)
}

// TestP9ARefusedMessageWithoutACopyIsNoDuplicate ends the process after the refusal, and
// before a copy is among the dead letters: the queue of them is full.
func TestP9ARefusedMessageWithoutACopyIsNoDuplicate(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	mail := s.scriptMail()
	running, first := s.trusted(quick)
	bad := orderOf("bad@example.com")
	mail.answer(onlyFor("bad@example.com", refuseAll(550, 5, 1, 1)), accept)
	s.setPolicy("^"+deadLetters+"$", `{"max-length": 1, "overflow": "reject-publish"}`)
	before := len(s.fillWithOrders(deadLetters))
	s.emit(bad)
	running.wantWaitingCopies("dlq", 1)
	running.kill()
	s.wantDeadLetters(0, before)

	s.clearPolicy()
	s.consuming(quick)
	s.wantDeadLetters(soon, before+1)
	dead := s.take(deadLetters, before+1)
	if got := dead[before]; got.MessageId != bad.MessageId || got.Headers["failure-code"] != "recipient-refused" {
		t.Errorf("the dead letter is %s %v", got.MessageId, got.Headers)
	}
	s.wantOneCopyEach([]amqp.Publishing{first}...)
}
