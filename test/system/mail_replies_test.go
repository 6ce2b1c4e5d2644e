package system

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// answer sets the replies to every RCPT and to the end of every e-mail.
func (m *mailServer) answer(rcpt, endOfData func(to string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rcpt, m.endOfData = rcpt, endOfData
}

func (m *mailServer) replies() (rcpt, endOfData func(to string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rcpt, m.endOfData
}

func accept(string) error { return nil }

func (m *mailServer) acceptAll() { m.answer(accept, accept) }

// refusal refuses every recipient. Class, subject and detail make the enhanced status code.
func refusal(code, class, subject, detail int) func(to string) error {
	return func(string) error {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{class, subject, detail}, Message: "scripted"}
	}
}

// onlyFor gives a reply to one recipient, and accepts all others.
func onlyFor(address string, reply func(string) error) func(to string) error {
	return func(to string) error {
		if to == address {
			return reply(to)
		}
		return nil
	}
}

// refuse sets the reply to each RCPT for an address. The first attempt has number 1, and nil
// accepts it.
func (m *mailServer) refuse(address string, refusal func(attempt int) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals[address] = refusal
}

// refused refuses a recipient with one code, the given number of times.
func refused(code, times int) func(attempt int) error {
	return func(attempt int) error {
		if attempt > times {
			return nil
		}
		return &smtp.SMTPError{Code: code, EnhancedCode: recipientCode(code), Message: "scripted"}
	}
}

// recipientCode returns an enhanced status code that concerns only the recipient: no such
// mailbox, or a mailbox that is disabled for now.
func recipientCode(code int) smtp.EnhancedCode {
	if code >= 500 {
		return smtp.EnhancedCode{5, 1, 1}
	}
	return smtp.EnhancedCode{4, 2, 1}
}

const always = math.MaxInt

// holdRecipient delays the reply to the first RCPT of an event until the test calls answer.
// asked gets a value for each RCPT.
func (m *mailServer) holdRecipient(e orderEvent) (asked <-chan struct{}, answer func(error)) {
	asking, answers := make(chan struct{}, 100), make(chan error, 1)
	m.refuse(e.address(), func(attempt int) error {
		asking <- struct{}{}
		if attempt > 1 {
			return nil
		}
		return <-answers
	})
	return asking, func(err error) { answers <- err }
}

// heldReplies are e-mails that wait for the reply to their end.
type heldReplies struct {
	waiting atomic.Int64
	answer  chan struct{}
}

// holdReplies holds the reply to the end of every e-mail until release.
func (m *mailServer) holdReplies(t *testing.T) *heldReplies {
	t.Helper()
	return m.holdRepliesFor(t, "")
}

// holdRepliesFor does the same for the recipients with a prefix.
func (m *mailServer) holdRepliesFor(t *testing.T, prefix string) *heldReplies {
	t.Helper()
	h := &heldReplies{answer: make(chan struct{})}
	m.answer(accept, func(to string) error {
		if !strings.HasPrefix(to, prefix) {
			return nil
		}
		h.waiting.Add(1)
		select {
		case <-h.answer:
			return nil
		case <-t.Context().Done():
			return refusal(451, 4, 3, 0)("")
		}
	})
	return h
}

// await waits until each worker has an e-mail whose reply is held.
func (h *heldReplies) await(t *testing.T) {
	t.Helper()
	if !eventually(shortTimeout, func() bool { return h.waiting.Load() >= workers }) {
		t.Fatalf("%d e-mails wait for their reply, want %d", h.waiting.Load(), workers)
	}
}

// release replies 250 to the waiting e-mails and to all later ones.
func (h *heldReplies) release() { close(h.answer) }

// replyDelay is longer than 20 s, the limit that an e-mail had in an earlier version. It is
// far below the 10 minutes that RFC 5321, section 4.5.3.2.6, gives a server after the dot.
const replyDelay = 25 * time.Second

// delayReplies accepts every e-mail, but delays the reply to its end.
func (m *mailServer) delayReplies(t *testing.T) (arrived <-chan string) {
	ends := make(chan string, 100)
	m.answer(accept, func(to string) error {
		ends <- to
		select {
		case <-time.After(replyDelay):
		case <-t.Context().Done():
		}
		return nil
	})
	return ends
}
