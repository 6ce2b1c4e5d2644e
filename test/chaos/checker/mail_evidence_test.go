package checker_test

import (
	"fmt"
	"slices"
	"strings"

	"example.com/transactional-outbox/test/chaos/checker"
)

func product(n int) string { return fmt.Sprint("sku", n) }

// amount is for 1 to 3 pieces. The amount for 3 has a comma.
func amount(n int) int64 { return int64(n+1) * 33350 }

// mail is the e-mail about an event of order n.
func mail(event, to, says string, n int) checker.Mail {
	m := checker.Mail{MessageID: "<" + event + "@example.com>", To: to, Subject: "Your order of " + product(n) + " is " + says}
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
func rewrite(m *checker.Mail, old, changed string) {
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

// refuse changes the evidence as if the mail server had rejected e-mail i.
func refuse(e *checker.Evidence, i int) {
	e.Emails[i].Status, e.Mails = "failed", drop(e.Mails, i)
}

// refused permits that the mail server rejects the recipient of the last order.
var refused = checker.Allowance{Refused: map[string]bool{"2@load.example": true}}

// addVersion adds an event to the last order, and its e-mail.
func addVersion(e *checker.Evidence, version int) {
	id, last := fmt.Sprint("event-2-", version), e.Attempts[5]
	last.Kind = checker.Cancel
	e.Attempts, e.Orders[2].Version = append(e.Attempts, last), version
	e.Events = append(e.Events, checker.Event{ID: id, OrderID: "order-2", Version: version, Key: "order.cancelled", Status: "published", Payload: "{}"})
	e.Tap = append(e.Tap, checker.Message{ID: id, Key: "order.cancelled", Body: []byte("{}")})
	e.Emails = append(e.Emails, checker.Email{ID: id, OrderID: "order-2", Version: version, Status: "published"})
	e.Recorded, e.Mails = append(e.Recorded, id), append(e.Mails, mail(id, last.Email, "cancelled", 2))
}
