package system

import (
	"testing"
	"time"
)

// TestP5P6ADuplicateOfARefusedMessageChangesNothing publishes a message a second time, as
// `outbox republish` does. The mail server refused its recipient for good, so only an
// operator's replay sends it again.
func TestP5P6ADuplicateOfARefusedMessageChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	running, first := s.startWarmConsumer(quickRetries)
	bad := orderFor("bad@example.com")
	s.mail.answer(onlyFor("bad@example.com", refusal(550, 5, 1, 1)), accept)
	s.publish(bad)
	s.wantDeadLetterCount(shortTimeout, 1)
	asked := s.mail.recipients.Load()

	s.publish(bad)
	s.awaitOutcomes(3, []*service{running}, "success", "duplicate", "dlq")
	if again := s.mail.recipients.Load() - asked; again != 0 {
		t.Errorf("%d more RCPT commands for a recipient that the mail server refuses", again)
	}
	s.wantDeadLetterCount(time.Second, 1)

	s.mail.acceptAll()
	s.deadLetterCommand("replay", bad.MessageId)
	s.wantCount(shortTimeout, s.notificationsDB, 2, sentCount)
	s.wantDeadLetterCount(time.Second, 0)
	s.wantOneEmailEach(bad, first)
}

// TestP9ARefusedMessageIsDeadLetteredAfterARestart kills the process after the refusal and
// before the copy is in the dead-letter queue, which is full.
func TestP9ARefusedMessageIsDeadLetteredAfterARestart(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	running, first := s.startWarmConsumer(quickRetries)
	bad := orderFor("bad@example.com")
	s.mail.answer(onlyFor("bad@example.com", refusal(550, 5, 1, 1)), accept)
	s.setPolicy("^"+deadLetterQueue+"$", `{"max-length": 1, "overflow": "reject-publish"}`)
	before := len(s.fillQueue(deadLetterQueue, fillerOrder))
	s.publish(bad)
	running.wantWaitingCopies("dlq", 1)
	running.kill()
	s.wantDeadLetterCount(0, before)

	s.clearPolicy()
	s.startConsumer(quickRetries)
	s.wantDeadLetterCount(shortTimeout, before+1)
	dead := s.takeMessages(deadLetterQueue, before+1)
	if got := dead[before]; got.MessageId != bad.MessageId || got.Headers["failure-code"] != "recipient-refused" {
		t.Errorf("the dead letter is %s %v", got.MessageId, got.Headers)
	}
	s.wantOneEmailEach(first)
}
