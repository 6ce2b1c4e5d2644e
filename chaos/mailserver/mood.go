package mailserver

import (
	"time"

	"github.com/emersion/go-smtp"
)

// Mood is how the server treats its clients, from now on.
type Mood struct {
	Delay     time.Duration        // before each answer to RCPT
	Late      time.Duration        // after the dot: it has the e-mail, and says so only then
	Hold      bool                 // no answer to RCPT until the next mood
	HoldAtDot bool                 // no answer after the dot until the next mood; it has the e-mail
	Code      int                  // with which it refuses; 0: it takes the e-mail. After 421 it closes the connection
	Enhanced  [3]int               // the enhanced code of that answer; zero: none
	AtDot     bool                 // it refuses after the dot, and not at RCPT
	Only      func(to string) bool // the recipients that it refuses, delays or holds; nil: all
	PerSecond int                  // it refuses only what is more than this in a second; 0: all
	Drop      bool                 // takes the e-mail, and then breaks the connection instead of saying so
	Times     int                  // how often, until it is kind again; 0: until the next mood
}

// concerns reports whether the mood is about this recipient.
func (m Mood) concerns(to string) bool { return m.Only == nil || m.Only(to) }

// refusal is the answer to whom it refuses.
func (m Mood) refusal() error {
	e := &smtp.SMTPError{Code: m.Code, EnhancedCode: smtp.EnhancedCode(m.Enhanced), Message: "not now"}
	if m.Enhanced == [3]int{} {
		e.EnhancedCode = smtp.NoEnhancedCode
	}
	if m.Code >= 500 {
		e.Message = "no"
	}
	return e
}

// Feel changes the mood. Whoever was held is answered, even if the next one will be held
// again.
func (s *Server) Feel(m Mood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mood, s.held = m, 0
	close(s.next)
	s.next = make(chan struct{})
}

// Held counts the clients that wait for the next mood.
func (s *Server) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// hold returns at once, or when the mood is over in which these are not answered.
func (s *Server) hold(to string, holds func(Mood) bool) {
	s.mu.Lock()
	over := s.next
	held := holds(s.mood) && s.mood.concerns(to)
	if held {
		s.held++
		s.spend()
	}
	s.mu.Unlock()
	if held {
		<-over
	}
}

// now returns the mood for one step of an e-mail, if it matters there.
func (s *Server) now(to string, matters func(Mood) bool) (Mood, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mood
	if !matters(m) || !m.concerns(to) || s.within(m.PerSecond) {
		return m, false
	}
	if m.Code != 0 {
		s.refused[to] = true
	}
	s.spend()
	return m, true
}

// within reports whether there is room for one more in this second.
func (s *Server) within(perSecond int) bool {
	return perSecond > 0 && countSince(s.accepted, time.Now().Add(-time.Second)) < perSecond
}

// accept counts a recipient, for the throttle.
func (s *Server) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = append(s.accepted, time.Now())
}

// spend counts what the mood has done, and ends it if that was often enough.
func (s *Server) spend() {
	s.moody++
	times := s.mood.Times
	if s.mood.Times--; times == 1 {
		s.mood = Mood{}
	}
}

// wait takes time, unless the server ends first.
func (s *Server) wait(d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-s.closed:
	}
}
