package notification

import (
	"fmt"
	"strings"
	"time"
)

// Email is one message to one person.
type Email struct {
	ID      string // of the header Message-ID: the same in every repeat
	Date    time.Time
	From    string
	To      string
	Subject string
	Text    string
	HTML    string
}

// compose writes the e-mail of a notification.
func (s *Service) compose(n Notification) (Email, error) {
	if !isAddress(n.Recipient) {
		return Email{}, &BadRecipientError{}
	}
	e := n.Event
	letter, known := letters[n.EventKey]
	if !known {
		return Email{}, fmt.Errorf("there is no e-mail for %q", n.EventKey)
	}
	subject, text, html, err := letter.write(particulars{
		Order: e.OrderID.String(), Product: plain(e.ProductID), Quantity: e.Quantity, Total: price(e.Amount, e.Currency),
	})
	if err != nil {
		return Email{}, err
	}
	_, domain, _ := strings.Cut(s.config.From, "@")
	return Email{
		ID: n.MessageID.String() + "@" + domain, Date: n.StartedAt,
		From: s.config.From, To: n.Recipient, Subject: subject, Text: text, HTML: html,
	}, nil
}
