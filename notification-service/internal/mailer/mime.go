package mailer

import (
	"bytes"
	"fmt"
	"unicode"

	"github.com/wneessen/go-mail"
)

// envelope is an e-mail as a mail transaction needs it.
type envelope struct {
	from, to string // in angle brackets
	utf8     bool   // it needs SMTPUTF8
	text     []byte
}

func (m Email) envelope() (e envelope, err error) {
	message, err := m.message()
	if err != nil {
		return e, err
	}
	var text bytes.Buffer
	if _, err := message.WriteTo(&text); err != nil {
		return e, fmt.Errorf("writing the e-mail: %w", err)
	}
	to, err := message.GetRecipients()
	if err != nil {
		return e, err
	}
	from, err := message.GetSender(false)
	return envelope{from: from, to: to[0], utf8: needsUTF8(m.To), text: text.Bytes()}, err
}

// message builds the MIME message, with the same content as text and as HTML. go-mail encodes
// characters that could add a header or end the body.
func (m Email) message() (*mail.Msg, error) {
	if !IsAddress(m.To) {
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

// needsUTF8 reports whether the address needs SMTPUTF8. Other e-mails must not ask for it,
// because not every server supports it (RFC 6531, section 3.4).
func needsUTF8(address string) bool {
	for _, r := range address {
		if r > unicode.MaxASCII {
			return true
		}
	}
	return false
}
