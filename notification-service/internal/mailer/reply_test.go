package mailer

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"testing"
)

// TestEveryReplyHasItsKind is the table of replies: RFC 5321, section 4.2, RFC 3463, and
// RFC 4954, section 6. A reply counts at RCPT and at the dot, if it says no other.
func TestEveryReplyHasItsKind(t *testing.T) {
	t.Parallel()
	const (
		all, refused = "without mail", "recipient-refused"
		transient    = "transient"
		orRefused    = "unclear, recipient-refused"
		orDeferred   = "unclear, deferred"
		orTransient  = "unclear, transient"
	)
	for _, test := range []struct{ replies, atRcpt, atDot string }{
		// For certain about the server.
		{"421 | 421 4.3.2 | 421 4.7.0 | 421 4.2.1 | 521 | 521 5.3.2", all, all},
		{"530 | 530 5.7.0 | 534 | 534 5.7.9 | 535 | 535 5.7.8 | 538 5.7.11 | 538", all, all},
		// For certain about the recipient or the e-mail.
		{"550 5.1.0 | 550 5.1.1 | 553 5.1.2 | 553 5.1.3 | 554 5.1.6 | 556 5.1.10", refused, refused},
		{"550 5.2.0 | 550 5.2.1 | 552 5.2.2 | 552 5.2.3 | 530 5.1.1", refused, refused},
		{"550 5.6.0 | 554 5.6.1 | 550 5.6.7 | 552 5.3.4 | 554 5.3.4", refused, refused},
		{"450 4.2.0 | 450 4.2.1 | 452 4.2.2 | 452 4.3.4 | 451 4.6.0", transient, transient},
		// A server without its resolver answers so for every recipient.
		{"450 4.1.1 | 450 4.1.2 | 451 4.1.0 | 451 4.1.4", orTransient, orTransient},
		{"552", orRefused, refused}, // at RCPT: too many recipients, or a full mailbox, or a full disk
		{"556", refused, refused},
		// About a policy, the system, the network, the sender, or nothing at all.
		{"550 | 551 | 553 | 554 | 550 5.0.0 | 500 | 503 5.5.1 | 555 | 599", orRefused, orRefused},
		{"550 5.7.1 | 554 5.7.1 | 550 5.7.26 | 552 5.7.0 | 551 5.7.1", orRefused, orRefused},
		{"550 5.3.0 | 554 5.3.2 | 550 5.3.5 | 550 5.4.1 | 550 5.4.4 | 554 5.4.6", orRefused, orRefused},
		{"550 5.1.7 | 553 5.1.8", orRefused, orRefused},
		{"451 | 452 | 454 | 432 | 451 4.0.0 | 451 4.5.0", orDeferred, orDeferred},
		{"451 4.3.0 | 452 4.3.1 | 432 4.3.2 | 450 4.3.2 | 451 4.4.1 | 450 4.4.3", orDeferred, orDeferred},
		{"454 4.7.0 | 450 4.7.1 | 451 4.7.1 | 450 4.7.25 | 450 4.1.8 | 450 4.1.7", orDeferred, orDeferred},
		{"450 | 400 | 455 | 450 4.0.0 | 450 4.5.0", orDeferred, orDeferred},
		// An enhanced code that contradicts the reply code, or is none, says nothing.
		{"550 4.1.1 | 550 5.1 | 550 5.1.1x | 550 5.1.1111", orRefused, orRefused},
		{"450 5.1.1 | 450 2.1.5", orDeferred, orDeferred},
	} {
		for reply := range strings.SplitSeq(test.replies, " | ") {
			for step, want := range map[string]string{stepRcpt: test.atRcpt, "DATA": test.atRcpt, stepDot: test.atDot} {
				if err := answered(step, reply); errorKind(err) != want {
					t.Errorf("%s: %q is %q, want %q", step, reply, errorKind(err), want)
				}
			}
		}
	}
}

// answered is what Send returns after one reply.
func answered(step, reply string) error {
	var code int
	_, _ = fmt.Sscan(reply, &code)
	_, text, _ := strings.Cut(reply, " ")
	return classify(newStepError(step, &textproto.Error{Code: code, Msg: text + " as you see"}))
}

// TestMAILSpeaksOfAllEmails: they have the same sender. Only SMTPUTF8 may differ.
func TestMAILSpeaksOfAllEmails(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"550": "without mail", "550 5.7.1": "without mail", "553 5.1.8": "without mail", "451 4.3.0": "without mail", "450": "without mail",
		"454 4.7.0": "without mail", "432": "without mail", "530": "without mail", "550 5.1.1": "without mail", "452 4.3.1": "without mail",
		"553 5.6.7": "unclear, recipient-refused", "552": "unclear, recipient-refused", "552 5.3.4": "unclear, recipient-refused",
		"452 4.3.4": "transient",
	} {
		if err := answered(stepMail, reply); errorKind(err) != want {
			t.Errorf("%q is %q, want %q", reply, errorKind(err), want)
		}
	}
}

func TestOnlyTheAnswerIsInTheChainOfErrors(t *testing.T) {
	t.Parallel()
	err := answered(stepRcpt, "554 5.7.1")
	if _, refused := errors.AsType[*RefusedError](err); refused {
		t.Errorf("%v is refused already", err)
	}
	if reply, ok := errors.AsType[*textproto.Error](err); !ok || reply.Code != 554 {
		t.Errorf("%v does not unwrap to its reply", err)
	}
}
