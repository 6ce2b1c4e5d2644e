package notification

import (
	"errors"
	"slices"
)

// verdict turns a step that failed into the error that says whom it concerns. Errors of
// what came before the steps pass unchanged.
func verdict(err error) error {
	e, failed := errors.AsType[*stepError](err)
	if !failed {
		return err
	}
	switch e.meaning() {
	case allEmails:
		return &UnavailableError{Cause: err, Own: e.own()}
	case thisForGood:
		return &RefusedError{Reason: err.Error()}
	case unclearForGood:
		return &UnclearError{Cause: err, IfServerWorks: &RefusedError{Reason: err.Error()}}
	case unclearLater:
		return &UnclearError{Cause: err, IfServerWorks: &DeferredError{Cause: err}}
	default:
		return err
	}
}

// own is what a failure of all e-mails is for one that meets it again and again while others
// are accepted. A server that closes the connection with a reply puts it off. One that never
// replies to this e-mail may have taken it each time, so those tries are counted.
func (e *stepError) own() error {
	if e.code == 0 {
		return e
	}
	return &DeferredError{Cause: e}
}

// meaning says whom a reply concerns, and for how long. The unclear ones may concern all
// e-mails or this one. Their names say what follows if it is only this one.
type meaning int

const (
	allEmails      meaning = iota // certainly
	thisForGood                   // certainly
	thisNow                       // certainly
	unclearForGood                // 5yz
	unclearLater                  // 4yz
)

// Reply codes that mean the same at every step.
var (
	closingCodes = []int{421, 521}           // RFC 5321, section 3.8; RFC 7504, section 3
	loginCodes   = []int{530, 534, 535, 538} // RFC 4954, section 6
)

// meaning is the table of replies. The enhanced status code (RFC 3463) is more exact than
// the reply code (RFC 5321, section 4.2.3), so it counts where there is one.
func (e *stepError) meaning() meaning {
	var (
		permanent = e.code/100 == 5
		bare      = e.status == statusCode{}
		// Section 3.2 of RFC 3463: X.1.7 and X.1.8 are about the sender.
		sender = e.status == statusCode{1, 7} || e.status == statusCode{1, 8}
		// Sections 3.2 and 3.3: address and mailbox. RFC 7504: the domain takes no e-mail.
		recipient = e.status.subject == 1 && !sender || e.status.subject == 2 || bare && e.code == 556
		// Sections 3.4 and 3.7: too big for this system, content. Bare 552: at MAIL, the dot.
		content = e.status == statusCode{3, 4} || e.status.subject == 6 || bare && e.code == 552 && (e.step == stepDot || e.step == stepMail)
	)
	switch {
	case e.code == 0: // no reply, or nonsense
		return allEmails
	case slices.Contains(closingCodes, e.code):
		return allEmails
	case slices.Contains(loginCodes, e.code) && (bare || e.status.subject == 7):
		return allEmails
	case e.step == stepMail && !content: // all e-mails have the same sender
		return allEmails
	case e.step != stepMail && permanent && (recipient || content):
		return thisForGood
	case permanent:
		return unclearForGood
	case recipient, content:
		return thisNow
	default:
		return unclearLater
	}
}
