package outboxcli

import (
	"bytes"
	"errors"
	"io"
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

// maskJSON hides the addresses in the texts of a JSON value.
func maskJSON(value jsontext.Value) (jsontext.Value, error) {
	var masked bytes.Buffer
	duplicates := jsontext.AllowDuplicateNames(true)
	in, out := jsontext.NewDecoder(bytes.NewReader(value), duplicates), jsontext.NewEncoder(&masked, duplicates)
	for field := ""; ; {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(masked.Bytes()), nil
		}
		if err != nil {
			return nil, err
		}
		if token.Kind() == '"' {
			text := token.String()
			kind, n := in.StackIndex(in.StackDepth())
			isName := kind == '{' && n%2 == 1
			if !isName && slices.Contains(recipients, field) {
				token = jsontext.String(maskAddress(text))
			} else {
				token = jsontext.String(mask(text))
			}
			if isName {
				field = text
			}
		}
		if err := out.WriteToken(token); err != nil {
			return nil, err
		}
	}
}
