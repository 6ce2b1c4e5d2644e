package notification

import (
	"fmt"
	"strings"

	"example.com/transactional-outbox/notification-service/internal/mailer"
)

// compose writes the e-mail of a notification.
func (s *Service) compose(n Notification) (mailer.Email, error) {
	if !mailer.IsAddress(n.Recipient) {
		return mailer.Email{}, &mailer.BadRecipientError{}
	}
	e := n.Event
	template, known := emailTemplates[n.EventKey]
	if !known {
		return mailer.Email{}, fmt.Errorf("there is no e-mail for %q", n.EventKey)
	}
	subject, text, html, err := template.write(templateData{
		Order: e.OrderID.String(), Product: singleLine(e.ProductID), Quantity: e.Quantity, Total: formatPrice(e.Amount, e.Currency),
	})
	if err != nil {
		return mailer.Email{}, err
	}
	_, domain, _ := strings.Cut(s.config.From, "@")
	return mailer.Email{
		ID: n.MessageID.String() + "@" + domain, Date: n.StartedAt,
		From: s.config.From, To: n.Recipient, Subject: subject, Text: text, HTML: html,
	}, nil
}
