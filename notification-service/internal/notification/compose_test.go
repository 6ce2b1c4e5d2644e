package notification

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
)

// composedEmail is the e-mail for an order of anything.
func composedEmail(t *testing.T, product, currency string) mailer.Email {
	t.Helper()
	event := Event{Key: OrderCreated, OrderID: uuid.New(), ProductID: product, Quantity: 2, Amount: 5998, Currency: currency}
	n := Notification{MessageID: uuid.New(), EventKey: OrderCreated, Recipient: "ada@example.com", Event: event}
	e, err := NewService(Config{From: "shop@example.com"}, nil, nil, nil).compose(n)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sendToServer sends e-mails to a real mail server, and returns what arrived there.
func sendToServer(t *testing.T, emails ...mailer.Email) []mailertest.Email {
	t.Helper()
	server := &mailertest.Server{}
	smtp, err := mailer.NewSMTP("smtp://"+server.Start(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer smtp.Close()
	for _, e := range emails {
		if err := smtp.Send(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	received := server.Received()
	if len(received) != len(emails) {
		t.Fatalf("%d e-mails, want %d", len(received), len(emails))
	}
	return received
}

// TestNothingOfAnEventBreaksOutOfItsEmail sends what an event should never hold, and reads what
// a mail server understands.
func TestNothingOfAnEventBreaksOutOfItsEmail(t *testing.T) {
	t.Parallel()
	const evil = "x\r\nBcc: eve@example.com\r\n\r\n<script>alert(1)</script>\r\n.\r\nRCPT TO:<eve@example.com>\x00\u2028\u202e"
	good := composedEmail(t, "sku123", "GBP")
	bad := composedEmail(t, evil, "<b>")
	bad.ID = good.ID
	all := sendToServer(t, good, bad)
	for _, e := range all {
		if !slices.Equal(e.To, []string{"ada@example.com"}) || !slices.Equal(e.HeaderNames(), all[0].HeaderNames()) {
			t.Errorf("to %v with headers %v", e.To, e.HeaderNames())
		}
		if _, html := e.Bodies(t); strings.Contains(html, "<script") || strings.Contains(html, "<b>") {
			t.Errorf("HTML %s", html)
		}
	}
	if text, _ := all[1].Bodies(t); strings.Contains(text, "\nBcc") || strings.Contains(text, "\n.\n") {
		t.Errorf("the product makes lines of its own:\n%s", text)
	}
}
