package mailer

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startMail returns a mail server, and a mailer that sends to it.
func startMail(t testing.TB) (*mailertest.Server, *SMTP) {
	t.Helper()
	server := &mailertest.Server{}
	return server, newMailer(t, "smtp://"+server.Start(t))
}

func newMailer(t testing.TB, url string) *SMTP { return newMailers(t, url, 8) }

// newMailers returns a mailer with that many connections.
func newMailers(t testing.TB, url string, connections int) *SMTP {
	t.Helper()
	mailer, err := NewSMTP(url, connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mailer.Close)
	return mailer
}

// testEmail is an e-mail whose text a careless client would cut at the dot.
func testEmail() Email {
	return Email{
		ID: "42@example.com", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), From: "shop@example.com", To: "ada@example.com",
		Subject: "Grüße", Text: "Hello\n.\nAda\n", HTML: "<p>Hello\n.\nAda</p>\n",
	}
}
