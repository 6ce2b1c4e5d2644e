package notification

import (
	"unicode"

	"github.com/wneessen/go-mail"
)

// message builds the MIME message: the text for those who read text, and the same as
// HTML. go-mail encodes what would break out of a header or a body.
func (m Email) message() (*mail.Msg, error) {
	if !isAddress(m.To) {
		return nil, &BadRecipientError{}
	}
	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := message.From(m.From); err != nil {
		return nil, &UnavailableError{Cause: err} // MAIL_FROM is the same for all
	}
	if err := message.To(m.To); err != nil {
		return nil, &BadRecipientError{}
	}
	message.SetMessageIDWithValue(m.ID)
	message.SetDateWithValue(m.Date)
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies
	message.Subject(m.Subject)
	message.SetBodyString(mail.TypeTextPlain, m.Text)
	message.AddAlternativeString(mail.TypeTextHTML, m.HTML)
	return message, nil
}

// needsUTF8 reports whether an address is one that only servers with SMTPUTF8 know.
// For others nobody on the way should have to (RFC 6531, section 3.4).
func needsUTF8(address string) bool {
	for _, r := range address {
		if r > unicode.MaxASCII {
			return true
		}
	}
	return false
}
