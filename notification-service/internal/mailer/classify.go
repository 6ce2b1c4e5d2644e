package mailer

import (
	"errors"
	"slices"
)

// classify turns the error of a step into one that says whether the server or the e-mail is at
// fault. Errors from before the steps stay what they are.
func classify(err error) error {
	e, failed := errors.AsType[*stepError](err)
	if !failed {
		return err
	}
	switch e.scope() {
	case allEmails:
		return &UnavailableError{Cause: err, Own: e.ownFault()}
	case emailPermanent:
		return &RefusedError{Reason: err.Error()}
	case unclearPermanent:
		return &UnclearError{Cause: err, IfServerWorks: &RefusedError{Reason: err.Error()}}
	case unclearRecipient:
		return &UnclearError{Cause: err, IfServerWorks: err}
	case unclearTransient:
		return &UnclearError{Cause: err, IfServerWorks: &DeferredError{Cause: err}}
	default:
		return err
	}
}

// ownFault is the error of an e-mail that fails so again and again while others are accepted. If
// the server closes the connection with a reply, it defers the e-mail. If it never replies to
// this e-mail, it may have accepted it each time, so those tries are counted.
func (e *stepError) ownFault() error {
	if e.code == 0 {
		return e
	}
	return &DeferredError{Cause: e}
}

// scope is which e-mails a reply concerns, and whether for good. An unclear reply concerns all
// e-mails or only this one. Its name says what follows if it is only this one.
type scope int

const (
	allEmails        scope = iota // certainly
	emailPermanent                // certainly
	emailTransient                // certainly
	unclearPermanent              // 5yz
	unclearTransient              // 4yz
	unclearRecipient              // 4yz about an address; if it is only this one, a retry is spent
)

// Reply codes that mean the same at every step.
var (
	closingCodes = []int{421, 521}           // RFC 5321, section 3.8; RFC 7504, section 3
	loginCodes   = []int{530, 534, 535, 538} // RFC 4954, section 6
)

// scope is the table of replies. The enhanced status code (RFC 3463) is more exact than the
// reply code (RFC 5321, section 4.2.3), so it decides if there is one.
func (e *stepError) scope() scope {
	var (
		permanent = e.code/100 == 5
		bare      = e.status == statusCode{}
		// Section 3.2 of RFC 3463: X.1.7 and X.1.8 are about the sender.
		sender = e.status == statusCode{1, 7} || e.status == statusCode{1, 8}
		// Sections 3.2 and 3.3: address and mailbox. RFC 7504: the domain accepts no e-mail.
		address   = e.status.subject == 1 && !sender
		recipient = address || e.status.subject == 2 || bare && e.code == 556
		// Sections 3.4 and 3.7: too big for this system, content. Bare 552: at MAIL, the dot.
		content = e.status == statusCode{3, 4} || e.status.subject == 6 || bare && e.code == 552 && (e.step == stepDot || e.step == stepMail)
	)
	switch {
	case e.code == 0: // no valid reply
		return allEmails
	case slices.Contains(closingCodes, e.code):
		return allEmails
	case slices.Contains(loginCodes, e.code) && (bare || e.status.subject == 7):
		return allEmails
	case e.step == stepMail && !content: // all e-mails have the same sender
		return allEmails
	case e.step != stepMail && permanent && (recipient || content):
		return emailPermanent
	case permanent:
		return unclearPermanent
	case address:
		// A server whose own resolver or database is away answers "450 4.1.2 Domain not found" or
		// "450 4.1.1 unverified address" for every recipient.
		return unclearRecipient
	case recipient, content:
		return emailTransient
	default:
		return unclearTransient
	}
}
