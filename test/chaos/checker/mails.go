package checker

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
)

// MessageID returns the id of the message that caused an e-mail.
func MessageID(m mailserver.Mail) string {
	id, _, _ := strings.Cut(strings.Trim(m.MessageID, "<>"), "@")
	return id
}

// checkMails requires at the mail server each e-mail that is published, with the right content. A
// repeat has the same Message-ID, and a fault that permits it (P6).
func (c *check) checkMails() {
	ids, requests := map[[2]string]string{}, c.requests() // Message-IDs, by recipient and subject
	for _, m := range c.Mails {
		what := [2]string{m.To, m.Subject}
		if before, repeated := ids[what]; repeated && before != m.MessageID {
			c.reportUnexpected("P6", MessageID(m), "%s got %q twice, with two ids", m.To, m.Subject)
		}
		ids[what] = m.MessageID
		if problem := c.mailError(m, requests[m.To]); problem != "" {
			c.reportUnexpected("P6", m.MessageID, "the e-mail %s to %s %s", m.MessageID, m.To, problem)
		}
	}
	for _, m := range c.Emails {
		if m.Status == "published" && c.mailed[m.ID] == 0 {
			c.reportLost("P6", m.ID, "e-mail %s is published, and the mail server does not have it", m.ID)
		}
	}
	c.checkRepeats()
}

// checkMailSequence requires the e-mails of one order in the order of their versions, first copies
// and repeats (P7).
func (c *check) checkMailSequence() {
	last := map[string]int{}
	for _, m := range c.Mails {
		e, known := c.events[MessageID(m)]
		if !known {
			continue
		}
		if e.Version < last[e.OrderID] {
			c.violation("P7", "order %s: the e-mail of version %d came after that of version %d", e.OrderID, e.Version, last[e.OrderID])
		}
		last[e.OrderID] = max(last[e.OrderID], e.Version)
	}
}

// checkRepeats limits the repeats of each e-mail and the repeats of all. Each cut connection
// permits one repeat of its e-mail.
func (c *check) checkRepeats() {
	cuts := map[string]int{}
	for _, m := range c.Mails {
		if m.Cut {
			cuts[MessageID(m)]++
			c.report.MailBound++
		}
	}
	c.report.MailBound += c.allowed.Mails
	unexcused := 0
	for id, copies := range c.mailed {
		c.report.MailRepeats += copies - 1
		repeats := max(0, copies-1-cuts[id])
		unexcused += repeats
		if repeats > c.allowed.MailsEach {
			c.violation("P6", "the e-mail %s was repeated %d times, and the faults permit %d", id, repeats, c.allowed.MailsEach)
		}
	}
	c.requireAtMost("P6", unexcused, c.allowed.Mails, "e-mails were repeated")
}

// request is what a client has requested, and the answer that it got.
type request struct {
	load.Attempt             // the answered one, if there is one
	kinds        []load.Kind // of the requests that it has sent
}

// requests returns the requests of all clients, by e-mail address.
func (c *check) requests() map[string]request {
	all := map[string]request{}
	for _, a := range c.Attempts {
		r := all[a.Email]
		if r.OrderID == "" {
			r.Attempt = a
		}
		if a.Outcome != load.NotSent {
			r.kinds = append(r.kinds, a.Kind)
		}
		all[a.Email] = r
	}
	return all
}

// mailError returns what contradicts the client's request in an e-mail, or "".
func (c *check) mailError(m mailserver.Mail, r request) string {
	e, known := c.events[MessageID(m)]
	_, appended := c.emails[MessageID(m)]
	switch {
	case !known || !appended:
		return "belongs to no event"
	case !slices.Contains(r.kinds, load.Kind(e.Key)):
		return fmt.Sprintf("is about %s, which that client did not request", e.Key)
	case e.OrderID != r.OrderID:
		return fmt.Sprintf("is about order %s, and the client's order is %s", e.OrderID, r.OrderID)
	case len(m.Bodies) == 0:
		return "is empty"
	}
	if kind := kindIn(m.Subject); kind != load.Kind(e.Key) {
		return fmt.Sprintf("is about %s, and its subject is %q", e.Key, m.Subject)
	}
	for _, body := range m.Bodies {
		if kind := kindIn(body); kind != load.Kind(e.Key) {
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
func kindIn(text string) load.Kind {
	has := func(word string) bool { return strings.Contains(strings.ToLower(text), word) }
	switch {
	case has("received") && !has("cancelled"):
		return load.Place
	case has("confirmed") && !has("cancelled"):
		return load.Confirm
	case has("cancelled") && !has("confirmed") && !has("received"):
		return load.Cancel
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
