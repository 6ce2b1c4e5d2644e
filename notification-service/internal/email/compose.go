// Package email reads order events, and writes the e-mails about them.
//
// [Check] and [Parse] read a message from order-service. The outbox stores an [Order]. [Compose]
// writes the e-mail when it is sent. So a mistake in a template loses nothing: the next version of
// this service composes the e-mails that wait.
package email

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/outbox/publish"
)

// Compose writes the e-mail of a message of the outbox.
func Compose(m publish.Message) (mailer.Email, error) {
	var o Order
	if err := json.Unmarshal(m.Body, &o); err != nil {
		return mailer.Email{}, fmt.Errorf("the payload is not the JSON of an e-mail: %w", err)
	}
	template, known := emailTemplates[o.Type]
	if !known {
		return mailer.Email{}, fmt.Errorf("there is no e-mail for %.300q", o.Type)
	}
	subject, text, html, err := template.write(templateData{
		Order: o.OrderID.String(), Product: singleLine(o.ProductID), Quantity: o.Quantity, Total: formatPrice(o.Amount, o.Currency),
	})
	if err != nil {
		return mailer.Email{}, err
	}
	return mailer.Email{To: o.CustomerEmail, Subject: subject, Text: text, HTML: html}, nil
}
