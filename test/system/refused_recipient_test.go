package system

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ARefusedRecipientAffectsOnlyItsMessage refuses one recipient and accepts all others.
// Only the message of that recipient is dead-lettered.
func TestP9ARefusedRecipientAffectsOnlyItsMessage(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]func(string) error{
		"550 5.1.1, no such user":                refusal(550, 5, 1, 1),
		"554 5.7.1, a policy for this recipient": refusal(554, 5, 7, 1),
		"550, and no enhanced code":              refusal(550, -1, -1, -1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			running, first := s.startWarmConsumer(quickRetries)
			bad, orders := orderFor("bad@example.com"), newOrders(burstSize)
			s.mail.answer(onlyFor("bad@example.com", refusal), accept)
			s.publish(slices.Insert(slices.Clone(orders), burstSize/2, bad)...)

			closed := false
			eventually(shortTimeout, func() bool {
				closed = closed || running.gateClosed("mail")
				return queryValue[int](s, s.notificationsDB, sentCount) == 1+burstSize
			})
			if closed {
				t.Error("the gate closed for one recipient")
			}
			// The consumer dead-letters it only after the server has accepted others and refused
			// it again.
			later := s.publishUntilDeadLettered(1)
			s.wantOneEmailEach(append(slices.Concat(orders, later), first)...)
			s.wantRecipientRefused(bad)
		})
	}
}

// TestP9ARefusedRecipientFirstAfterAStart refuses the first recipient after a start. It is
// dead-lettered after the server has accepted another one.
func TestP9ARefusedRecipientFirstAfterAStart(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startConsumer(quickRetries).kill()
	bad, orders := orderFor("bad@example.com"), newOrders(burstSize)
	s.mail.answer(onlyFor("bad@example.com", refusal(554, 5, 7, 1)), accept)
	s.publish(append([]amqp.Publishing{bad}, orders...)...)
	s.runNotifications(quickRetries)
	s.wantCount(shortTimeout, s.notificationsDB, burstSize, sentCount)
	later := s.publishUntilDeadLettered(1)
	s.wantOneEmailEach(append(orders, later...)...)
	s.wantRecipientRefused(bad)
}

// publishUntilDeadLettered publishes an order each second until there are n dead letters. It
// waits for the e-mails of these orders, and returns the orders.
func (s *system) publishUntilDeadLettered(n int) (published []amqp.Publishing) {
	s.Helper()
	sentBefore := queryValue[int](s, s.notificationsDB, sentCount)
	for range 15 {
		if eventually(time.Second, func() bool { return s.readyMessages(deadLetterQueue) == n }) {
			break
		}
		published = append(published, orderFor("later@example.com"))
		s.publish(published[len(published)-1])
	}
	s.wantDeadLetterCount(shortTimeout/3, n)
	s.wantCount(shortTimeout, s.notificationsDB, sentBefore+len(published), sentCount)
	return published
}

// wantRecipientRefused wants this message to be the only dead letter, with the reason.
func (s *system) wantRecipientRefused(m amqp.Publishing) {
	s.Helper()
	dead := s.takeMessages(deadLetterQueue, 1)[0]
	wantUnchanged(s.T, dead, m)
	if dead.Headers["failure-code"] != "recipient-refused" {
		s.Errorf("the failure-code is %v, want recipient-refused", dead.Headers["failure-code"])
	}
}
