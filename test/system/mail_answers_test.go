package system

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// refusal refuses everybody. Class, subject and detail make the enhanced status code.
func refusal(code, class, subject, detail int) func(to string) error {
	return func(string) error {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{class, subject, detail}, Message: "scripted"}
	}
}

func hangingUp(string) error { return errHangUp }
func losing(string) error    { return errLost }

// onlyFor answers the recipients whose address has this suffix, and accepts all others.
func onlyFor(suffix string, answer func(string) error) func(to string) error {
	return func(to string) error {
		if strings.HasSuffix(to, suffix) {
			return answer(to)
		}
		return nil
	}
}

// heldEmails are e-mails that wait for the answer to their dot.
type heldEmails struct {
	waiting atomic.Int64
	release func()
}

// holdDots holds the answer to the dot for the recipients with a suffix, until release.
func (m *mailServer) holdDots(t *testing.T, suffix string) *heldEmails {
	t.Helper()
	released := make(chan struct{})
	h := &heldEmails{release: func() { close(released) }}
	m.answer(answers{dot: onlyFor(suffix, func(string) error {
		h.waiting.Add(1)
		select {
		case <-released:
			return nil
		case <-t.Context().Done():
			return errHangUp
		}
	})})
	return h
}

// await waits until n e-mails are held.
func (h *heldEmails) await(t *testing.T, n int64) {
	t.Helper()
	if !eventually(awaitTimeout, func() bool { return h.waiting.Load() >= n }) {
		t.Fatalf("%d e-mails wait for their answer, want %d", h.waiting.Load(), n)
	}
}

// delayDots accepts every e-mail, but delays the answer. It returns how many dots have come.
func (m *mailServer) delayDots(t *testing.T, delay time.Duration) (dots *atomic.Int64) {
	t.Helper()
	dots = &atomic.Int64{}
	m.answer(answers{dot: func(string) error {
		dots.Add(1)
		select {
		case <-time.After(delay):
		case <-t.Context().Done():
		}
		return nil
	}})
	return dots
}
