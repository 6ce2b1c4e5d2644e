package checker_test

import (
	"fmt"
	"strings"

	"example.com/transactional-outbox/chaos/checker"
)

func product(n int) string { return fmt.Sprint("sku", n) }

// amount is that of an order of 1 … 3 pieces: the last one has a comma.
func amount(n int) int64 { return int64(n+1) * 33350 }

// mail is what the mail server has of an event of order n.
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

// rewrite changes a word of an e-mail, wherever it stands.
func rewrite(m *checker.Mail, old, changed string) {
	m.Subject = strings.ReplaceAll(m.Subject, old, changed)
	m.Bodies = append([]string(nil), m.Bodies...)
	for i := range m.Bodies {
		m.Bodies[i] = strings.ReplaceAll(m.Bodies[i], old, changed)
	}
}

// refuse lets the mail server refuse an e-mail for good.
func refuse(e *checker.Evidence, i int) {
	e.Notifications[i].Status, e.Mails = "rejected", drop(e.Mails, i)
	letter := e.Tap[i]
	letter.Headers = map[string]any{"failure-reason": "no such user"}
	e.DeadLetters = append(e.DeadLetters, letter)
}

// refused is the recipient of the last order.
var refused = checker.Allowance{Refused: map[string]bool{"2@load.example": true}}

// addVersion adds a third event to the last order, and its e-mail. The checker asks only
// for events that have an order.
func addVersion(e *checker.Evidence, version int) {
	id, last := fmt.Sprint("event-2-", version), e.Attempts[5]
	last.Kind = checker.Cancel
	e.Attempts, e.Orders[2].Version = append(e.Attempts, last), version
	e.Events = append(e.Events, checker.Event{ID: id, OrderID: "order-2", Version: version, Key: "order.cancelled", Status: "published", Payload: "{}"})
	e.Tap = append(e.Tap, checker.Message{ID: id, Key: "order.cancelled", Body: []byte("{}")})
	e.Notifications = append(e.Notifications, checker.Notification{ID: id, OrderID: "order-2", Version: version, Recipient: last.Email, Status: "sent"})
	e.Processed, e.Mails = append(e.Processed, id), append(e.Mails, mail(id, last.Email, "cancelled", 2))
}

var ofMails = []defect{
	{
		name:     "a missing e-mail",
		do:       func(e *checker.Evidence) { e.Mails = drop(e.Mails, 0) },
		promises: "P6", lost: 1,
	},
	{
		name:     "too many e-mails",
		do:       func(e *checker.Evidence) { e.Mails = append(e.Mails, e.Mails[0], e.Mails[0]) },
		allowed:  checker.Allowance{Mails: 1, MailsEach: 2},
		promises: "P6",
	},
	{
		name: "one e-mail often, within what all together may be repeated",
		do: func(e *checker.Evidence) {
			for range 20 {
				e.Mails = append(e.Mails, e.Mails[0])
			}
		},
		allowed:  checker.Allowance{Mails: 20, MailsEach: 5},
		promises: "P6",
	},
	{
		name: "an e-mail was cut, and another is repeated",
		do: func(e *checker.Evidence) {
			e.Mails = append(e.Mails, e.Mails[1])
			e.Mails[0].Cut = true
		},
		promises: "P6",
	},
	{
		name: "two customers have each other's e-mails, and the service's rows agree",
		do: func(e *checker.Evidence) {
			e.Mails[0].To, e.Mails[2].To = e.Mails[2].To, e.Mails[0].To
			e.Notifications[0].Recipient, e.Notifications[2].Recipient = e.Notifications[2].Recipient, e.Notifications[0].Recipient
		},
		promises: "P6", unexpected: 2,
	},
	{
		name:     "two customers read of each other's orders",
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
		name: "another quantity, in HTML only",
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
		name:     "an e-mail without words",
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
		name: "a cancellation of what nobody cancelled",
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
		promises: "P6", unexpected: 2,
	},
	{
		name: "a second e-mail with another id",
		do: func(e *checker.Evidence) {
			again := e.Mails[0]
			again.MessageID = "<another@example.com>"
			e.Mails = append(e.Mails, again)
		},
		promises: "P6", unexpected: 2, // it is a repeat that nobody can tell, and of no notification
	},
	{
		name:     "an e-mail to somebody else",
		do:       func(e *checker.Evidence) { e.Mails[0].To = "eve@load.example" },
		promises: "P6", unexpected: 1,
	},
	{
		name: "an e-mail of nothing",
		do: func(e *checker.Evidence) {
			e.Mails = append(e.Mails, checker.Mail{MessageID: "<x@y>", To: "z", Subject: "?"})
		},
		promises: "P6", unexpected: 1,
	},
}

var (
	bad     = checker.Message{ID: "bad", Key: "order.created", Body: []byte("{"), Headers: map[string]any{"failure-reason": "no JSON"}}
	planted = checker.Allowance{Planted: map[string]checker.Message{"bad": bad}}
)

var ofDeadLetters = []defect{
	{
		name:     "a good message is a dead letter",
		do:       func(e *checker.Evidence) { e.DeadLetters = append(e.DeadLetters, e.Tap[0]) },
		promises: "P9",
	},
	{
		name: "a refused e-mail is acknowledged without a copy",
		do: func(e *checker.Evidence) {
			refuse(e, 5)
			e.DeadLetters = nil
		},
		allowed: refused, promises: "P9", lost: 1,
	},
	{
		name:     "a refused e-mail that nobody excuses",
		do:       func(e *checker.Evidence) { refuse(e, 3) },
		allowed:  refused,
		promises: "P9",
	},
	{
		name: "the dead letter of a refused e-mail has changed",
		do: func(e *checker.Evidence) {
			refuse(e, 5)
			e.DeadLetters[0].Body = []byte("{}")
		},
		allowed: refused, promises: "P9",
	},
	{
		name: "superseded by what is refused, and no dead letter",
		do: func(e *checker.Evidence) {
			refuse(e, 5)
			e.Notifications[4].Status, e.Mails, e.DeadLetters = "superseded", e.Mails[:4], nil
		},
		allowed: refused, promises: "P6 P9", lost: 2,
	},
	{
		name: "superseded by what says that it is sent, and is not",
		do: func(e *checker.Evidence) {
			e.Notifications[4].Status, e.Mails = "superseded", e.Mails[:4]
		},
		promises: "P6", lost: 2,
	},
	{
		name:    "a bad message is gone",
		do:      func(*checker.Evidence) {},
		allowed: planted, promises: "P9", lost: 1,
	},
	{
		name: "a dead letter has changed",
		do: func(e *checker.Evidence) {
			changed := bad
			changed.Body = []byte("{}")
			e.DeadLetters = append(e.DeadLetters, changed)
		},
		allowed: planted, promises: "P9",
	},
	{
		name: "a dead letter does not say why",
		do: func(e *checker.Evidence) {
			silent := bad
			silent.Headers = nil
			e.DeadLetters = append(e.DeadLetters, silent)
		},
		allowed: planted, promises: "P9",
	},
	{
		name: "a retry came to another service",
		do: func(e *checker.Evidence) {
			again := e.Tap[0]
			again.Headers = map[string]any{"retry-count": int64(1)}
			e.Tap = append(e.Tap, again)
		},
		allowed: checker.Allowance{Duplicates: 1}, promises: "P8", duplicated: 1,
	},
	{
		name:     "another service's dead letter",
		do:       func(e *checker.Evidence) { e.OrderDeadLetters = append(e.OrderDeadLetters, e.Tap[0]) },
		promises: "P8",
	},
}
