package cli

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// address is an e-mail address in a text. The name may be in quotes.
var address = regexp.MustCompile(`(?:"[^"]*"|[^\s<>"(),;:]+)@[^\s<>"'(),;:]+`)

// Mask hides the names of the e-mail addresses in a text: ann@example.com is a***@example.com.
func Mask(text string) string { return address.ReplaceAllStringFunc(text, maskAddress) }

// maskAddress keeps the first letter and the domain. They tell addresses apart, as a rule.
func maskAddress(whole string) string {
	name, domain := whole, ""
	if at := strings.LastIndex(whole, "@"); at >= 0 {
		name, domain = whole[:at], whole[at:]
	}
	for _, first := range strings.Trim(name, `"'`) {
		return string(first) + "***" + domain
	}
	return "***" + domain
}

// recipient is a field of JSON that has an address, whatever it looks like.
var recipient = regexp.MustCompile(`("(?:to|recipient|customer_email)":\s*)("(?:[^"\\]|\\.)*")`)

// MaskJSON hides the e-mail addresses in JSON, and in any other text: those in the fields that name
// a recipient, and what looks like one elsewhere.
func MaskJSON(payload []byte) []byte {
	value := jsontext.Value(payload).Clone()
	// An address may be written with escapes, such as \u0040 for @.
	if value.Format(jsontext.PreserveRawStrings(false)) != nil {
		return []byte(Mask(string(payload)))
	}
	masked := recipient.ReplaceAllStringFunc(string(value), func(field string) string {
		parts := recipient.FindStringSubmatch(field)
		text, err := jsontext.AppendUnquote(nil, parts[2])
		if err != nil {
			text = nil
		}
		quoted, err := jsontext.AppendQuote(nil, maskAddress(string(text)))
		if err != nil {
			quoted = []byte(`"***"`)
		}
		return parts[1] + string(quoted)
	})
	return []byte(Mask(masked))
}
