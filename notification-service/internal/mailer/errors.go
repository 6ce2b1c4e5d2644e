package mailer

import "strings"

// RefusedError says that the mail server refused the recipient or the e-mail for good.
type RefusedError struct{ Reason string }

// Error is the server's answer.
func (e *RefusedError) Error() string { return "the mail server refused it: " + e.Reason }

// DeadLetterCode makes it permanent.
func (*RefusedError) DeadLetterCode() string { return "recipient-refused" }

// BadRecipientError says that the recipient is not an address. It does not repeat the recipient,
// which may be anything.
type BadRecipientError struct{}

// Error says what is wrong.
func (*BadRecipientError) Error() string { return "the recipient is not an e-mail address" }

// DeadLetterCode makes it permanent.
func (*BadRecipientError) DeadLetterCode() string { return "bad-recipient" }

// UnavailableError says that the mail server accepts no e-mail now.
type UnavailableError struct {
	Cause error
	// Own is the error of an e-mail that fails so again and again while others are accepted; nil
	// if the e-mail cannot be at fault. It is not part of the chain of errors.
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

// Dependency is what is unavailable.
func (*UnavailableError) Dependency() string { return MailServer }

// OwnFault is the error of an e-mail that fails so again and again.
func (e *UnavailableError) OwnFault() error { return e.Own }

// UnclearError is a reply that may concern this e-mail or all e-mails: a rate limit, a policy, a
// local problem, or a reply code alone.
type UnclearError struct {
	Cause error // the answer
	// IfServerWorks is the error if this e-mail fails again after the server has accepted another
	// one. It is not part of the chain of errors.
	IfServerWorks error
}

// Error says what the server answered.
func (e *UnclearError) Error() string {
	return "the mail server did not take it: " + e.Cause.Error()
}

// Unwrap is the answer.
func (e *UnclearError) Unwrap() error { return e.Cause }

// Dependency is what may be unavailable.
func (*UnclearError) Dependency() string { return MailServer }

// MessageError is a [*RefusedError], a [*DeferredError], or an error that counts as a try.
func (e *UnclearError) MessageError() error { return e.IfServerWorks }

// DeferredError says that the mail server will accept this e-mail later.
type DeferredError struct{ Cause error }

// Error says what the server answered.
func (e *DeferredError) Error() string {
	return "the mail server takes it later: " + e.Cause.Error()
}

// Unwrap is the answer.
func (e *DeferredError) Unwrap() error { return e.Cause }

// Deferred marks it for the consumer.
func (*DeferredError) Deferred() {}

// unaddressedError is an error whose text does not have the recipient's address. Mail servers
// repeat the address in their answers, and it does not belong in logs and traces.
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

// Error is the text without the address. Some servers repeat the address in lower case.
func (e unaddressedError) Error() string {
	const instead = "[recipient]"
	return strings.NewReplacer(e.address, instead, strings.ToLower(e.address), instead).Replace(e.error.Error())
}

// Unwrap is the error with the address.
func (e unaddressedError) Unwrap() error { return e.error }
