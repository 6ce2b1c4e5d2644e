package systemtest

import (
	"testing"
	"time"
)

// late is longer than the 20 s that an e-mail once had, and far below the 10 minutes that
// RFC 5321 4.5.3.2.6 gives a server after the dot.
const late = 25 * time.Second

// answerLate lets the mail server answer late to each dot, with 250.
func (m *scriptedMail) answerLate(t *testing.T) (arrived <-chan string) {
	dots := make(chan string, 100)
	m.answer(accept, func(to string) error {
		dots <- to
		select {
		case <-time.After(late):
		case <-t.Context().Done():
		}
		return nil
	})
	return dots
}

// TestP6AMailServerThatAnswersLateGetsOneCopy has a server that needs 25 s for each e-mail.
func TestP6AMailServerThatAnswersLateGetsOneCopy(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	mail := s.scriptMail()
	_, first := s.trusted(quick)
	arrived, orders := mail.answerLate(t), ordersOf(4)
	s.emit(orders...)
	for range orders {
		<-arrived
	}
	again := 0
	s.wantCountUnless(late+20*time.Second, 1+len(orders), func() bool { again = len(arrived); return again > 0 })
	if again > 0 {
		t.Errorf("the mail server gets %d e-mails for the second time", again)
		return
	}
	s.wantNothingLeft()
	s.wantOneCopyEach(append(orders, first)...)
	s.wantNoneDead()
}

// wantCountUnless waits until n e-mails are marked sent, or there is a reason to stop.
func (s *system) wantCountUnless(limit time.Duration, n int, stop func() bool) {
	s.Helper()
	got := 0
	done := within(limit, func() bool { got = one[int](s, s.notifications, sent); return got == n || stop() })
	if !done {
		s.Errorf("after %s: %d e-mails are marked sent, want %d", limit, got, n)
	}
}

// TestP12SIGTERMWhileTheMailServerIsLateEndsIn20s asks the service to end when its e-mails
// are at the dot, and their answer takes longer than the service has.
func TestP12SIGTERMWhileTheMailServerIsLateEndsIn20s(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	mail := s.scriptMail()
	running, _ := s.trusted(quick)
	arrived, orders := mail.answerLate(t), ordersOf(4)
	s.emit(orders...)
	for range orders {
		<-arrived
	}
	running.wantEndIn20s()
	s.wantNoneDead()
}
