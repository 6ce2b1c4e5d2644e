package notification

import (
	"errors"
	"strings"

	"github.com/google/uuid"
)

// What can go wrong is of three kinds, which the consumer tells apart by methods: an
// error with DeadLetterCode is for good, one with Dependency says that what every
// message needs is away, and any other is this message's own trouble, for now.

// RefusedError says that the mail server refused the recipient or the message for
// good.
type RefusedError struct{ Reason string }

// Error is the server's answer.
func (e *RefusedError) Error() string { return "the mail server refused it: " + e.Reason }

// DeadLetterCode makes it permanent.
func (*RefusedError) DeadLetterCode() string { return "recipient-refused" }

// BadRecipientError says that there is nobody to write to. It does not repeat the
// address, which may be anything.
type BadRecipientError struct{}

// Error says what is wrong.
func (*BadRecipientError) Error() string { return "the recipient is not an e-mail address" }

// DeadLetterCode makes it permanent.
func (*BadRecipientError) DeadLetterCode() string { return "bad-recipient" }

// UnavailableError says that the mail server takes no e-mail now, whichever it is.
type UnavailableError struct{ Cause error }

// Error says what happened.
func (e *UnavailableError) Error() string {
	return "the mail server is not available: " + e.Cause.Error()
}

// Unwrap is the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// MailServer is the name of the mail server as a dependency.
const MailServer = "mail"

// Dependency is what is away.
func (*UnavailableError) Dependency() string { return MailServer }

// InHandError says that another worker is sending this e-mail: what becomes of it is
// known when that one is done, or its lease has ended.
type InHandError struct{ MessageID uuid.UUID }

// Error says which.
func (e *InHandError) Error() string {
	return "another worker is sending the e-mail of message " + e.MessageID.String()
}

// HeldElsewhere marks it for the consumer.
func (*InHandError) HeldElsewhere() {}

// forGood returns why an e-mail will never be sent, if that is what err says.
func forGood(err error) (reason string, ok bool) {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Reason, true
	}
	if bad, ok := errors.AsType[*BadRecipientError](err); ok {
		return bad.Error(), true
	}
	return "", false
}

// unaddressedError is an error whose text does not name the recipient: mail servers
// repeat the address in their answers, and it does not belong into logs and traces.
type unaddressedError struct {
	error
	address string
}

func withoutAddress(err error, address string) error {
	if err == nil || address == "" {
		return err
	}
	return unaddressedError{err, address}
}

// Error is the text with the address left out.
func (e unaddressedError) Error() string {
	return strings.ReplaceAll(e.error.Error(), e.address, "[recipient]")
}

// Unwrap is the error with the address.
func (e unaddressedError) Unwrap() error { return e.error }
