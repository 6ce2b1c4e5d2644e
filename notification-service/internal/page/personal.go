package page

import "regexp"

// address is an e-mail address in a text. The mail server's reply often has one.
var address = regexp.MustCompile(`[^\s<>"'(),;:]+@[^\s<>"'(),;:]+`)

// withoutAddresses hides the e-mail addresses in a reason.
func withoutAddresses(text string) string { return address.ReplaceAllString(text, "(hidden)") }
