package systemtest

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ARefusalOfOneRecipientIsTheMessagesOwn refuses one recipient while all others are
// taken: that message is a dead letter, and nobody else notices.
func TestP9ARefusalOfOneRecipientIsTheMessagesOwn(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]func(string) error{
		"550 5.1.1, no such user":        refuseAll(550, 5, 1, 1),
		"554 5.7.1, a policy about them": refuseAll(554, 5, 7, 1),
		"550, and no enhanced code":      refuseAll(550, -1, -1, -1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			mail := s.scriptMail()
			running, first := s.trusted(quick)
			bad, orders := orderOf("bad@example.com"), ordersOf(many)
			mail.answer(onlyFor("bad@example.com", refusal), accept)
			s.emit(slices.Insert(slices.Clone(orders), many/2, bad)...)

			closed := false
			within(soon, func() bool {
				closed = closed || running.gateClosed("mail")
				return one[int](s, s.notifications, sent) == 1+many
			})
			if closed {
				t.Error("the gate closed for one recipient")
			}
			// It needs evidence: others are taken, and it is refused again.
			later := s.emitUntilDead(1)
			s.wantOneCopyEach(append(slices.Concat(orders, later), first)...)
			s.wantRefusedRecipient(bad)
		})
	}
}

// TestP9ARefusedRecipientAtTheHeadOfAFreshProcess is dead-lettered as well, once the server
// has taken another one.
func TestP9ARefusedRecipientAtTheHeadOfAFreshProcess(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	mail := s.scriptMail()
	s.consuming(quick).kill()
	bad, orders := orderOf("bad@example.com"), ordersOf(many)
	mail.answer(onlyFor("bad@example.com", refuseAll(554, 5, 7, 1)), accept)
	s.emit(append([]amqp.Publishing{bad}, orders...)...)
	s.runNotifications(quick)
	s.wantCount(soon, s.notifications, many, sent)
	later := s.emitUntilDead(1)
	s.wantOneCopyEach(append(orders, later...)...)
	s.wantRefusedRecipient(bad)
}

// emitUntilDead emits an order each second until there are that many dead letters, and
// returns those that it emitted, which are sent.
func (s *system) emitUntilDead(letters int) (emitted []amqp.Publishing) {
	s.Helper()
	sentBefore := one[int](s, s.notifications, sent)
	for range 15 {
		if within(time.Second, func() bool { return s.messagesIn(deadLetters) == letters }) {
			break
		}
		emitted = append(emitted, orderOf("later@example.com"))
		s.emit(emitted[len(emitted)-1])
	}
	s.wantDeadLetters(soon/3, letters)
	s.wantCount(soon, s.notifications, sentBefore+len(emitted), sent)
	return emitted
}

// wantRefusedRecipient wants this message to be the one dead letter, with the reason.
func (s *system) wantRefusedRecipient(m amqp.Publishing) {
	s.Helper()
	dead := s.take(deadLetters, 1)[0]
	wantUnchanged(s.T, dead, m)
	if dead.Headers["failure-code"] != "recipient-refused" {
		s.Errorf("the failure-code is %v, want recipient-refused", dead.Headers["failure-code"])
	}
}
