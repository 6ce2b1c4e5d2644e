package mailserver

import (
	"fmt"
	"time"

	"example.com/transactional-outbox/test/env/smtptest"
)

// Fault is how the server misbehaves. The zero value is no fault.
type Fault struct {
	RcptDelay time.Duration        // before each answer to RCPT
	DataDelay time.Duration        // between recording the e-mail and answering DATA
	HoldData  bool                 // no answer to DATA until the next SetFault; the e-mail is recorded
	Code      int                  // of the refusal; 0: none. After 421 the server closes the connection
	Enhanced  [3]int               // enhanced status code of the refusal; zero: none
	AfterData bool                 // the refusal answers DATA instead of RCPT
	Only      func(to string) bool // the recipients with the fault; nil: all
	Drop      bool                 // close the connection after DATA; the e-mail is recorded
	Times     int                  // how often the fault happens; 0: until the next SetFault

	// Rcpt answers each RCPT, unless it is nil or returns "". Times counts those of this recipient.
	Rcpt func(to string, times int) string
}

// appliesTo reports whether a recipient has the fault.
func (f Fault) appliesTo(to string) bool { return f.Only == nil || f.Only(to) }

// Refusal returns the reply with the fault's code, or "" if there is none.
func (f Fault) Refusal() string {
	if f.Code == 0 {
		return ""
	}
	reply := fmt.Sprint(f.Code)
	if f.Enhanced != [3]int{} {
		reply += fmt.Sprintf(" %d.%d.%d", f.Enhanced[0], f.Enhanced[1], f.Enhanced[2])
	}
	reply += " not now"
	if f.Code == 421 {
		reply += "\r\n" + smtptest.HangUp
	}
	return reply
}

// SetFault replaces the fault. The server then answers the clients that it held or delayed, even if
// the new fault does so again.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.held = f, 0
	close(s.changed)
	s.changed = make(chan struct{})
}

// Held counts the clients that wait for the next SetFault.
func (s *Server) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// hold waits until the fault changes, if the fault holds this recipient.
func (s *Server) hold(to string) {
	s.mu.Lock()
	changed := s.changed
	held := s.fault.HoldData && s.fault.appliesTo(to)
	if held {
		s.held++
		s.count()
	}
	s.mu.Unlock()
	if held {
		<-changed
	}
}

// answer returns the answer of Rcpt.
func (s *Server) answer(to string) string {
	s.mu.Lock()
	s.asked[to]++
	times, rcpt := s.asked[to], s.fault.Rcpt
	s.mu.Unlock()
	if rcpt == nil {
		return ""
	}
	return rcpt(to, times)
}

// faultAt returns the fault, and whether it applies to one step of an e-mail. A fault that applies
// is counted.
func (s *Server) faultAt(to string, matters func(Fault) bool) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fault
	if !matters(f) || !f.appliesTo(to) {
		return f, false
	}
	s.count()
	return f, true
}

// count counts one occurrence of the fault, and ends the fault after Times of them.
func (s *Server) count() {
	s.injected++
	s.fault.Times--
	if s.fault.Times == 0 {
		s.fault = Fault{}
	}
}

// wait returns after d, or at the next SetFault.
func (s *Server) wait(d time.Duration) {
	if d == 0 {
		return
	}
	s.mu.Lock()
	changed := s.changed
	s.mu.Unlock()
	select {
	case <-time.After(d):
	case <-changed:
	}
}
