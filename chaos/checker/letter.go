package checker

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// wish is what a client has asked for, and what it was told of it.
type wish struct {
	Attempt        // the one that was answered, if there is one
	kinds   []Kind // that it has sent requests for
}

// wanted is what all clients want, by their addresses. A client that was not told the id
// of its order has the one that is there for it.
func (c *judgement) wanted() map[string]wish {
	all := map[string]wish{}
	for _, a := range c.Attempts {
		w := all[a.Email]
		if w.OrderID == "" {
			w.Attempt = a
		}
		if a.Outcome != NotSent {
			w.kinds = append(w.kinds, a.Kind)
		}
		all[a.Email] = w
	}
	for _, o := range c.Orders {
		if w, known := all[o.Email]; known && w.OrderID == "" {
			w.OrderID = o.ID
			all[o.Email] = w
		}
	}
	return all
}

// wrong says what contradicts the client in an e-mail that it got, if anything does.
func (c *judgement) wrong(m Mail, w wish) string {
	e, known := c.events[messageOf(m)]
	_, noted := c.notifications[messageOf(m)]
	switch {
	case !known || !noted:
		return "is of no event"
	case !slices.Contains(w.kinds, Kind(e.Key)):
		return fmt.Sprintf("tells of %s, which that client did not ask for", e.Key)
	case e.OrderID != w.OrderID:
		return fmt.Sprintf("is of order %s, where the client has order %s", e.OrderID, w.OrderID)
	case len(m.Bodies) == 0:
		return "is empty"
	}
	if says := newsIn(m.Subject); says != Kind(e.Key) {
		return fmt.Sprintf("is for %s, and its subject says %q", e.Key, m.Subject)
	}
	for _, body := range m.Bodies {
		if says := newsIn(body); says != Kind(e.Key) {
			return fmt.Sprintf("is for %s, and reads: %.200q", e.Key, body)
		}
		if complaint := w.contradicts(factsIn(body)); complaint != "" {
			return complaint
		}
	}
	return ""
}

// newsIn is what a text tells of an order. That an order is received may come with the
// promise to write again when it is confirmed; nothing else may be mixed.
func newsIn(text string) Kind {
	says := func(word string) bool { return strings.Contains(strings.ToLower(text), word) }
	switch {
	case says("received") && !says("cancelled"):
		return Place
	case says("confirmed") && !says("cancelled"):
		return Confirm
	case says("cancelled") && !says("confirmed") && !says("received"):
		return Cancel
	default:
		return ""
	}
}

// facts are what an e-mail lists, as text or in a table.
var facts = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^ +(Order|Product|Quantity|Amount) +(.+?)\r?$`),
	regexp.MustCompile(`(?s)<th[^>]*>(Order|Product|Quantity|Amount)</th>\s*<td[^>]*>(.*?)</td>`),
}

var tag = regexp.MustCompile(`<[^>]*>`)

func factsIn(body string) map[string]string {
	all := map[string]string{}
	for _, f := range facts {
		for _, m := range f.FindAllStringSubmatch(body, -1) {
			all[m[1]] = html.UnescapeString(tag.ReplaceAllString(m[2], ""))
		}
	}
	return all
}

// contradicts compares what an e-mail lists with what the client knows.
func (w wish) contradicts(listed map[string]string) string {
	known := map[string]string{"Order": w.OrderID, "Product": w.Product, "Quantity": strconv.Itoa(w.Quantity)}
	if w.Amount > 0 {
		known["Amount"] = price(w.Amount, w.Currency)
	}
	for fact, want := range known {
		if got := listed[fact]; got != want {
			return fmt.Sprintf("says %s %q, where the client knows of %q", fact, got, want)
		}
	}
	return ""
}

// price writes minor units as the shop does, for the currencies that it has.
func price(minor int64, currency string) string {
	whole := strconv.FormatInt(minor/100, 10)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	symbol := map[string]string{"GBP": "£", "EUR": "€", "USD": "$"}[currency]
	return fmt.Sprintf("%s%s.%02d", symbol, whole, minor%100)
}
