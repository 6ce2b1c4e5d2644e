package system

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// someRecipients is a fault that concerns only the recipients at bad.example, or at domains under
// it.
type someRecipients struct {
	bad     int
	domains bool // each has a domain of its own
	// answers returns what the server answers, and what mends it.
	answers func(s *system) (a answers, mend func())
	// lost: the server has the e-mails, but its answers are lost. The next copy is a minute later.
	lost bool
}

const badDomain = "bad.example"

func rcpt(answer func(string) error) func(*system) (answers, func()) {
	return func(s *system) (answers, func()) { return answers{rcpt: onlyFor(badDomain, answer)}, s.mail.acceptAll }
}

func lostAnswers(s *system) (answers, func()) {
	return answers{dot: onlyFor(badDomain, losing)}, s.mail.acceptAll
}

// These are what a review of an earlier version found: good e-mails came minutes late, or not at
// all.
var someRecipientsFaults = map[string]someRecipients{
	"3 of a domain get 450 4.1.2":         {bad: 3, answers: rcpt(refusal(450, 4, 1, 2))},
	"12 of a domain get 450 4.1.2":        {bad: 12, answers: rcpt(refusal(450, 4, 1, 2))},
	"50 of a domain get 450 4.1.2":        {bad: 50, answers: rcpt(refusal(450, 4, 1, 2))},
	"for one the server hangs up":         {bad: 1, answers: rcpt(losing)},
	"one gets 421":                        {bad: 1, answers: rcpt(hangingUp)},
	"10 get 421":                          {bad: 10, domains: true, answers: rcpt(hangingUp)},
	"30 get 421":                          {bad: 30, domains: true, answers: rcpt(hangingUp)},
	"one gets 554 5.7.1":                  {bad: 1, answers: rcpt(refusal(554, 5, 7, 1))},
	"16 of a domain are slow":             {bad: 16, answers: heldDots},
	"a domain takes one e-mail at a time": {bad: 12, answers: oneAtATime},
	"the answer about one is always lost": {bad: 1, answers: lostAnswers, lost: true},
	"the answers about a domain are lost": {bad: 12, answers: lostAnswers, lost: true},
}

// heldDots is a domain that answers when the test wants it to.
func heldDots(s *system) (answers, func()) {
	held := s.mail.holdDots(s.T, badDomain)
	return s.mail.answers, held.release
}

// oneAtATime is a domain that throttles.
func oneAtATime(s *system) (answers, func()) {
	place := make(chan struct{}, 1)
	busy := refusal(450, 4, 7, 0)
	return answers{rcpt: onlyFor(badDomain, func(to string) error {
		select {
		case place <- struct{}{}:
			time.AfterFunc(100*time.Millisecond, func() { <-place })
			return nil
		default:
			return busy(to)
		}
	})}, s.mail.acceptAll
}

// TestP9SomeRecipientsDelayNoOthers starts with bad e-mails in the queue, and sends good ones at a
// steady pace. All good ones come, and then, after the mend, the bad ones are sent as well.
func TestP9SomeRecipientsDelayNoOthers(t *testing.T) {
	t.Parallel()
	const good, pause = 60, 50 * time.Millisecond
	for name, fault := range someRecipientsFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.startConsumer().kill() // declares the queue
			a, mend := fault.answers(s)
			s.mail.answer(a)
			var bad []amqp.Publishing
			for i := range fault.bad {
				domain := badDomain
				if fault.domains {
					domain = fmt.Sprintf("%d.%s", i, badDomain)
				}
				bad = append(bad, orderFor(fmt.Sprintf("customer-%d@%s", i, domain)))
			}
			s.publish(bad...)
			running, orders := s.startConsumer(), newOrders(good)
			s.publishSlowly(orders, pause)
			all := slices.Concat(orders, bad)
			if fault.lost {
				s.mail.awaitAccepted(t, len(all))
				s.wantOneEmailEach(all...)
				s.wantNothingFailed(running)
				return
			}
			mend()
			s.wantCount(awaitTimeout, s.notificationsDB, len(all), sentCount)
			s.wantOneEmailEach(all...)
			s.wantNothingFailed(running)
		})
	}
}

// publishSlowly publishes orders one by one, and waits until each has its e-mail.
func (s *system) publishSlowly(orders []amqp.Publishing, pause time.Duration) {
	s.Helper()
	pace := time.NewTicker(pause)
	defer pace.Stop()
	for _, m := range orders {
		s.publish(m)
		<-pace.C
	}
	missing := 0
	if !eventually(awaitTimeout, func() bool {
		emails := s.mail.emails()
		missing = 0
		for _, m := range orders {
			if emails["<"+m.MessageId+"@example.com>"] == nil {
				missing++
			}
		}
		return missing == 0
	}) {
		s.Fatalf("%d of %d good e-mails did not come", missing, len(orders))
	}
}
