package mailer

import (
	"net/mail"
	"strings"
	"unicode"
)

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
