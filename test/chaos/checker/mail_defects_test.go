package checker_test

import (
	"fmt"
	"slices"
	"strings"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
)

var mailDefects = []defect{
	{
		name:     "a missing e-mail",
		do:       func(e *checker.Evidence) { e.Mails = drop(e.Mails, 0) },
		promises: "P6", lost: 1,
	},
	{
		name:     "too many e-mails",
		do:       func(e *checker.Evidence) { repeat(e, 0, 2) },
		allowed:  checker.Allowance{Mails: 1, MailsEach: 2},
		promises: "P6",
	},
	{
		name:     "one e-mail too often, within the limit of all e-mails",
		do:       func(e *checker.Evidence) { repeat(e, 0, 20) },
		allowed:  checker.Allowance{Mails: 20, MailsEach: 5},
		promises: "P6",
	},
	{
		name: "one e-mail was cut, and another one was repeated",
		do: func(e *checker.Evidence) {
			repeat(e, 1, 1)
			e.Mails[0].Cut = true
		},
		promises: "P6",
	},
	{
		name: "two customers got each other's e-mails",
		do: func(e *checker.Evidence) {
			e.Mails[0].To, e.Mails[2].To = e.Mails[2].To, e.Mails[0].To
		},
		promises: "P6", unexpected: 2,
	},
	{
		name:     "two customers got the details of each other's orders",
		do:       func(e *checker.Evidence) { e.Mails[0].Bodies, e.Mails[2].Bodies = e.Mails[2].Bodies, e.Mails[0].Bodies },
		promises: "P6", unexpected: 2,
	},
	{
		name:     "another order",
		do:       func(e *checker.Evidence) { rewrite(&e.Mails[0], "order-0", "order-1") },
		promises: "P6", unexpected: 1,
	},
	{
		name:     "another product",
		do:       func(e *checker.Evidence) { rewrite(&e.Mails[0], "sku0", "sku1") },
		promises: "P6", unexpected: 1,
	},
	{
		name: "another quantity in the HTML part only",
		do: func(e *checker.Evidence) {
			e.Mails[0].Bodies[1] = strings.ReplaceAll(e.Mails[0].Bodies[1], ">1<", ">7<")
		},
		promises: "P6", unexpected: 1,
	},
	{
		name:     "another amount",
		do:       func(e *checker.Evidence) { rewrite(&e.Mails[0], "£333.50", "£33.35") },
		promises: "P6", unexpected: 1,
	},
	{
		name:     "another currency",
		do:       func(e *checker.Evidence) { rewrite(&e.Mails[0], "£", "$") },
		promises: "P6", unexpected: 1,
	},
	{
		name:     "an e-mail without a body",
		do:       func(e *checker.Evidence) { e.Mails[0].Bodies = nil },
		promises: "P6", unexpected: 1,
	},
	{
		name:     "a confirmation that says cancelled",
		do:       func(e *checker.Evidence) { rewrite(&e.Mails[1], "confirmed", "cancelled") },
		promises: "P6", unexpected: 1,
	},
	{
		name: "a confirmation that says both",
		do: func(e *checker.Evidence) {
			e.Mails[1].Bodies[0] = strings.Replace(e.Mails[1].Bodies[0], "confirmed", "confirmed and cancelled", 1)
		},
		promises: "P6", unexpected: 1,
	},
	{
		name: "a cancellation that no client requested",
		do: func(e *checker.Evidence) {
			e.Events[1].Key, e.Tap[1].Key = "order.cancelled", "order.cancelled"
			rewrite(&e.Mails[1], "confirmed", "cancelled")
		},
		promises: "P6", unexpected: 1,
	},
	{
		name: "an e-mail about another event",
		do: func(e *checker.Evidence) {
			e.Mails[0].MessageID, e.Mails[1].MessageID = e.Mails[1].MessageID, e.Mails[0].MessageID
		},
		promises: "P6 P7", unexpected: 2, // as the ids say, they are out of order
	},
	{
		name: "a second e-mail with another id",
		do: func(e *checker.Evidence) {
			again := e.Mails[0]
			again.MessageID = "<another@example.com>"
			e.Mails = append(e.Mails, again)
		},
		promises: "P6", unexpected: 2, // nobody can see that it is a repeat, and it belongs to no e-mail
	},
	{
		name:     "an e-mail to somebody else",
		do:       func(e *checker.Evidence) { e.Mails[0].To = "eve@load.example" },
		promises: "P6", unexpected: 1,
	},
	{
		name:     "two e-mails of one order out of order",
		do:       func(e *checker.Evidence) { e.Mails[0], e.Mails[1] = e.Mails[1], e.Mails[0] },
		promises: "P7",
	},
	{
		name:     "a repeat after a newer e-mail",
		do:       func(e *checker.Evidence) { e.Mails = append(e.Mails, e.Mails[0]) },
		allowed:  checker.Allowance{Mails: 1, MailsEach: 1},
		promises: "P7",
	},
	{
		name: "an e-mail that belongs to no event",
		do: func(e *checker.Evidence) {
			e.Mails = append(e.Mails, mailserver.Mail{MessageID: "<x@y>", To: "z", Subject: "?"})
		},
		promises: "P6", unexpected: 1,
	},
}

func product(n int) string { return fmt.Sprint("sku", n) }

// amount is for 1 to 3 pieces. The amount for 3 has a comma.
func amount(n int) int64 { return int64(n+1) * 33350 }

// mail is the e-mail about an event of order n.
func mail(event, to, says string, n int) mailserver.Mail {
	m := mailserver.Mail{MessageID: "<" + event + "@example.com>", To: to, Subject: "Your order of " + product(n) + " is " + says}
	price := []string{"£333.50", "£667.00", "£1,000.50"}[n]
	facts := [][2]string{{"Order", fmt.Sprint("order-", n)}, {"Product", product(n)}, {"Quantity", fmt.Sprint(n + 1)}, {"Amount", price}}
	text, html := "Your order is "+says+"\r\n\r\n", "<h1>Your order is "+says+"</h1>\r\n"
	for _, f := range facts {
		text += fmt.Sprintf("  %-9s %s\r\n", f[0], f[1])
		html += fmt.Sprintf("<tr><th scope=\"row\">%s</th>\r\n<td align=\"left\"><strong>%s</strong></td></tr>\r\n", f[0], f[1])
	}
	m.Bodies = []string{text, html}
	return m
}

// rewrite replaces a word everywhere in an e-mail.
func rewrite(m *mailserver.Mail, old, changed string) {
	m.Subject = strings.ReplaceAll(m.Subject, old, changed)
	m.Bodies = append([]string(nil), m.Bodies...)
	for i := range m.Bodies {
		m.Bodies[i] = strings.ReplaceAll(m.Bodies[i], old, changed)
	}
}

// repeat adds copies of e-mail i, just after it.
func repeat(e *checker.Evidence, i, copies int) {
	for range copies {
		e.Mails = slices.Insert(e.Mails, i, e.Mails[i])
	}
}

// addVersion adds an event to the last order, and its e-mail.
func addVersion(e *checker.Evidence, version int) {
	id, last := fmt.Sprint("event-2-", version), e.Attempts[5]
	last.Kind = load.Cancel
	e.Attempts, e.Orders[2].Version = append(e.Attempts, last), version
	e.Events = append(e.Events, checker.Event{ID: id, OrderID: "order-2", Version: version, Key: "order.cancelled", Status: "published", Payload: "{}"})
	e.Tap = append(e.Tap, broker.Message{ID: id, Key: "order.cancelled", Body: []byte("{}")})
	e.Emails = append(e.Emails, checker.Email{ID: id, OrderID: "order-2", Version: version, Status: "published"})
	e.Recorded, e.Mails = append(e.Recorded, id), append(e.Mails, mail(id, last.Email, "cancelled", 2))
}
