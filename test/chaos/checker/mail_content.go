package checker

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// request is what a client has requested, and the answer that it got.
type request struct {
	Attempt        // the answered one, if there is one
	kinds   []Kind // of the requests that it has sent
}

// requests returns the requests of all clients, by e-mail address. If the client does not know the
// id of its order, the id comes from the table.
func (c *check) requests() map[string]request {
	all := map[string]request{}
	for _, a := range c.Attempts {
		r := all[a.Email]
		if r.OrderID == "" {
			r.Attempt = a
		}
		if a.Outcome != NotSent {
			r.kinds = append(r.kinds, a.Kind)
		}
		all[a.Email] = r
	}
	for _, o := range c.Orders {
		if r, known := all[o.Email]; known && r.OrderID == "" {
			r.OrderID = o.ID
			all[o.Email] = r
		}
	}
	return all
}

// mailError returns what contradicts the client's request in an e-mail, or "".
func (c *check) mailError(m Mail, r request) string {
	e, known := c.events[MessageID(m)]
	_, appended := c.emails[MessageID(m)]
	switch {
	case !known || !appended:
		return "belongs to no event"
	case !slices.Contains(r.kinds, Kind(e.Key)):
		return fmt.Sprintf("is about %s, which that client did not request", e.Key)
	case e.OrderID != r.OrderID:
		return fmt.Sprintf("is about order %s, and the client's order is %s", e.OrderID, r.OrderID)
	case len(m.Bodies) == 0:
		return "is empty"
	}
	if kind := kindIn(m.Subject); kind != Kind(e.Key) {
		return fmt.Sprintf("is about %s, and its subject is %q", e.Key, m.Subject)
	}
	for _, body := range m.Bodies {
		if kind := kindIn(body); kind != Kind(e.Key) {
			return fmt.Sprintf("is about %s, and its text is %.200q", e.Key, body)
		}
		if mismatch := r.mismatch(fieldsIn(body)); mismatch != "" {
			return mismatch
		}
	}
	return ""
}

// kindIn returns the event key that a text is about. The text of a received order may also contain
// "confirmed": it promises another e-mail. No other mixture is valid.
func kindIn(text string) Kind {
	has := func(word string) bool { return strings.Contains(strings.ToLower(text), word) }
	switch {
	case has("received") && !has("cancelled"):
		return Place
	case has("confirmed") && !has("cancelled"):
		return Confirm
	case has("cancelled") && !has("confirmed") && !has("received"):
		return Cancel
	default:
		return ""
	}
}

// fieldPatterns are the details that an e-mail lists, as text or as an HTML table.
var fieldPatterns = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^ +(Order|Product|Quantity|Amount) +(.+?)\r?$`),
	regexp.MustCompile(`(?s)<th[^>]*>(Order|Product|Quantity|Amount)</th>\s*<td[^>]*>(.*?)</td>`),
}

var tag = regexp.MustCompile(`<[^>]*>`)

func fieldsIn(body string) map[string]string {
	all := map[string]string{}
	for _, f := range fieldPatterns {
		for _, m := range f.FindAllStringSubmatch(body, -1) {
			all[m[1]] = html.UnescapeString(tag.ReplaceAllString(m[2], ""))
		}
	}
	return all
}

// mismatch compares the details of an e-mail with what the client knows.
func (r request) mismatch(listed map[string]string) string {
	known := map[string]string{"Order": r.OrderID, "Product": r.Product, "Quantity": strconv.Itoa(r.Quantity)}
	if r.Amount > 0 {
		known["Amount"] = formatAmount(r.Amount, r.Currency)
	}
	for fact, want := range known {
		if got := listed[fact]; got != want {
			return fmt.Sprintf("lists %s %q, and the client expects %q", fact, got, want)
		}
	}
	return ""
}

// formatAmount formats an amount as the e-mails do, in the currencies of the catalogue.
func formatAmount(minor int64, currency string) string {
	whole := strconv.FormatInt(minor/100, 10)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	symbol := map[string]string{"GBP": "£", "EUR": "€", "USD": "$"}[currency]
	return fmt.Sprintf("%s%s.%02d", symbol, whole, minor%100)
}
