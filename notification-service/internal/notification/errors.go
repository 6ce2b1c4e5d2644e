package notification

import "strings"

// The consumer tells errors apart by their methods:
//
//   - DeadLetterCode: this e-mail is never sent.
//   - Dependency: what every e-mail needs is away. With Otherwise as well, this is only
//     likely: Otherwise returns what the error is if the dependency works.
//   - Deferred: this e-mail is tried again later, and the try is not counted.
//   - None of these: this e-mail failed now, and the try is counted.

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
type UnavailableError struct {
	Cause error
	// Own is what the error is for an e-mail that meets it again and again while others are
	// accepted; nil if it cannot be the e-mail's own. It is not part of the chain of errors.
	Own error
}

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

// OwnFault is what the error is for an e-mail that meets it again and again.
func (e *UnavailableError) OwnFault() error { return e.Own }

// UnclearError is an answer of the mail server that does not say whether it holds for
// this e-mail or for all: a rate limit, a policy, local trouble, or a reply code alone.
type UnclearError struct {
	Cause error // the answer
	// IfServerWorks is what the error is if this e-mail fails again after the server has
	// accepted another one. It is not part of the chain of errors.
	IfServerWorks error
}

// Error says what the server answered.
func (e *UnclearError) Error() string {
	return "the mail server did not take it: " + e.Cause.Error()
}

// Unwrap is the answer.
func (e *UnclearError) Unwrap() error { return e.Cause }

// Dependency is what may be away.
func (*UnclearError) Dependency() string { return MailServer }

// Otherwise is a [*RefusedError], a [*DeferredError], or an error that counts as a try.
func (e *UnclearError) Otherwise() error { return e.IfServerWorks }

// DeferredError says that the mail server takes this e-mail later, and that this e-mail
// is not the reason.
type DeferredError struct{ Cause error }

// Error says what the server answered.
func (e *DeferredError) Error() string {
	return "the mail server takes it later: " + e.Cause.Error()
}

// Unwrap is the answer.
func (e *DeferredError) Unwrap() error { return e.Cause }

// Deferred marks it for the consumer.
func (*DeferredError) Deferred() {}

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

// Error is the text with the address left out. Some servers repeat it in lower case.
func (e unaddressedError) Error() string {
	const instead = "[recipient]"
	return strings.NewReplacer(e.address, instead, strings.ToLower(e.address), instead).Replace(e.error.Error())
}

// Unwrap is the error with the address.
func (e unaddressedError) Unwrap() error { return e.error }
