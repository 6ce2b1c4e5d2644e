package notification

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Email is one message to one person.
type Email struct {
	ID      string // of the header Message-ID: the same in every repeat
	From    string
	To      string
	Subject string
	Text    string
}

// sentences say what happened, in the subject and in the first line.
var sentences = map[string][2]string{
	OrderCreated:   {"We have your order", "thank you for your order. We have received it."},
	OrderConfirmed: {"Your order is confirmed", "good news: your order is confirmed and on its way to be packed."},
	OrderCancelled: {"Your order is cancelled", "your order is cancelled. You will not be charged."},
}

const body = `Hello,

%s

  Order     %s
  Product   %s
  Quantity  %d
  Total     %s

Questions? Just reply to this e-mail.
`

// compose writes the e-mail of a notification.
func (s *Service) compose(n notification) (Email, error) {
	var e Event
	if err := json.Unmarshal([]byte(n.OrderDetails), &e); err != nil {
		return Email{}, fmt.Errorf("reading the order of notification %s: %w", n.MessageID, err)
	}
	said := sentences[n.EventKey]
	_, domain, _ := strings.Cut(s.config.From, "@")
	return Email{
		ID:      n.MessageID.String() + "@" + domain,
		From:    s.config.From,
		To:      n.Recipient,
		Subject: said[0],
		Text:    fmt.Sprintf(body, said[1], e.OrderID, e.ProductID, e.Quantity, price(e.Amount, e.Currency)),
	}, nil
}

// price writes minor units as people do. The currencies of the catalogue have two
// decimals.
func price(minor int64, currency string) string {
	return fmt.Sprintf("%s %d.%02d", currency, minor/100, minor%100)
}

// maxReason is the width of failure_reason, in bytes.
const maxReason = 1024

func shorten(reason string) string {
	reason = strings.ReplaceAll(reason, "\x00", "")
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}
