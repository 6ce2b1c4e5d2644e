package mailer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"strings"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"

	"example.com/transactional-outbox/outbox/publish"
)

// Email is one e-mail to one person.
type Email struct{ To, Subject, Text, HTML string }

// envelope is an e-mail as a mail transaction needs it.
type envelope struct {
	from, to, subject string
	utf8              bool // it needs SMTPUTF8
	text              []byte
}

// compose builds the MIME message, with the same content as text and as HTML. go-mail encodes
// characters that could add a header or end the body.
func (d *Destination) compose(m publish.Message) (e envelope, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("composing panicked: %v", reason)
		}
	}()
	email, err := d.Compose(m)
	if err != nil {
		return e, readable(err) // a nil pointer in an error may panic here, and must not do so later
	}
	to, err := sendable(email.To)
	if err != nil {
		return e, err
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := errors.Join(message.From(d.From), message.To(to)); err != nil {
		return e, readable(err)
	}
	message.SetMessageIDWithValue(m.ID + "@" + Domain(d.From))
	message.SetDateWithValue(m.Timestamp)
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office replies
	message.Subject(email.Subject)
	message.SetBodyString(gomail.TypeTextPlain, email.Text)
	message.AddAlternativeString(gomail.TypeTextHTML, email.HTML)
	var text bytes.Buffer
	_, err = message.WriteTo(&text)
	return envelope{d.From, to, email.Subject, !isASCII(to), text.Bytes()}, err
}

// maxAddress is the longest address that fits into a path (RFC 5321, section 4.5.3.1.3).
const maxAddress = 254

// IsAddress reports whether s is an e-mail address and nothing else. It is stricter than the
// standard library's parser, which accepts names, comments and some invisible characters.
func IsAddress(s string) bool {
	address, err := mail.ParseAddress(s)
	return err == nil && address.Address == s && len(s) <= maxAddress && IsSingleLine(s)
}

// IsSingleLine reports whether s has no line break and no other control character.
func IsSingleLine(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar
	})
}

// Domain returns the domain of an address in lower case, and in Punycode if it has other letters
// than those of ASCII.
func Domain(address string) string {
	domain := strings.ToLower(address[strings.LastIndexByte(address, '@')+1:])
	if ascii, err := idna.Lookup.ToASCII(domain); err == nil {
		return ascii
	}
	return domain
}

// sendable returns the address as it is sent. Its error does not repeat the address, which may be
// anything.
func sendable(address string) (string, error) {
	domain := Domain(address)
	sent := address[:strings.LastIndexByte(address, '@')+1] + domain
	if !IsAddress(address) || !IsAddress(sent) || !isASCII(domain) {
		return "", fmt.Errorf("%w: the recipient is not an e-mail address that can be sent", publish.ErrInvalid)
	}
	return sent, nil
}

// masked finds what the log does not show of an address.
var masked = regexp.MustCompile(`^(.).*@`)

func (d *Destination) log(ctx context.Context, m publish.Message) error {
	e, err := d.compose(m)
	if err == nil {
		d.Logger.InfoContext(ctx, "e-mail written to the log only", "message_id", m.ID,
			"to", masked.ReplaceAllString(e.to, "$1…@"), "subject", e.subject)
	}
	return err
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
