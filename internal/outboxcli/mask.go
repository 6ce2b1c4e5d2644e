package outboxcli

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// address is an e-mail address in a text. The name may be in quotes.
var address = regexp.MustCompile(`(?:"[^"]*"|[^\s<>"(),;:]+)@[^\s<>"'(),;:]+`)

// mask hides the names of the e-mail addresses in a text: ann@example.com is a***@example.com.
func mask(text string) string { return address.ReplaceAllStringFunc(text, maskAddress) }

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

// recipients are the fields that have an address, whatever it looks like.
var recipients = []string{"to", "recipient", "customer_email"}

// maskJSON hides the addresses in the texts of a JSON value, which must be valid.
func maskJSON(value jsontext.Value) jsontext.Value {
	var masked bytes.Buffer
	in, out := jsontext.NewDecoder(bytes.NewReader(value)), jsontext.NewEncoder(&masked)
	for field := ""; ; {
		token, err := in.ReadToken()
		if err != nil { // the end
			return bytes.TrimSpace(masked.Bytes())
		}
		if token.Kind() == '"' {
			text := token.String()
			switch kind, n := in.StackIndex(in.StackDepth()); {
			case kind == '{' && n%2 == 1: // it is a name
				field = text
			case slices.Contains(recipients, field):
				text = maskAddress(text)
			default:
				text = mask(text)
			}
			token = jsontext.String(text)
		}
		_ = out.WriteToken(token) // into memory
	}
}
