package notification

import (
	"errors"

	"github.com/wneessen/go-mail"
)

// verdict tells whose fault it is that the server did not take an e-mail: of the
// server and the settings, of this e-mail for good, or of this e-mail for now.
func verdict(err error) error {
	answer, ok := errors.AsType[*mail.SendError](err)
	switch {
	case !ok, answer.ErrorCode() == 0: // no answer, or none that can be understood
		return &UnavailableError{Cause: err}
	case aboutServer(answer.ErrorCode()), aboutSender(answer):
		return &UnavailableError{Cause: err}
	case answer.ErrorCode() < 500:
		return err
	default:
		return &RefusedError{Reason: answer.Error()}
	}
}

// aboutServer knows the answers that mean the same whatever was asked: closing (421),
// takes no e-mail at all (521), and what is wrong with the login (RFC 4954, section 6).
func aboutServer(code int) bool {
	switch code {
	case 421, 521, 432, 454, 530, 534, 535, 538:
		return true
	default:
		return false
	}
}

// aboutSender knows that MAIL FROM tells the server nothing about this e-mail: all of
// them have the same sender, and their sizes are not declared. So a server that
// refuses it is not set up for MAIL_FROM. 552 speaks of the e-mail all the same.
func aboutSender(answer *mail.SendError) bool {
	return answer.Reason == mail.ErrSMTPMailFrom && answer.ErrorCode() != 552
}
