package mailer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSMTPSendsTheEmail(t *testing.T) {
	t.Parallel()
	server, mailer := startMail(t)
	if err := mailer.Send(t.Context(), testEmail()); err != nil {
		t.Fatal(err)
	}
	got := server.Received()[0]
	for header, want := range map[string]string{
		"Message-ID": "<42@example.com>", "To": "<ada@example.com>", "From": "<shop@example.com>", "Date": "Fri, 02 Jan 2026 03:04:05 +0000",
		"Subject": "=?UTF-8?q?Gr=C3=BC=C3=9Fe?=", "Auto-Submitted": "auto-generated",
	} {
		if is := got.Header.Get(header); is != want {
			t.Errorf("%s: %q, want %q", header, is, want)
		}
	}
	text, html := got.Bodies(t)
	if want := testEmail(); text != want.Text || html != want.HTML {
		t.Errorf("text %q and HTML %q, want %q and %q", text, html, want.Text, want.HTML)
	}
}

func TestNobodyIsAddedToTheRecipients(t *testing.T) {
	t.Parallel()
	server, mailer := startMail(t)
	for _, evil := range []string{
		"", "ada", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com\nX: y", "ada@example.com\r\nRCPT TO:<eve@example.com>",
		"ada@example.com\x00", "ada@example.com, eve@example.com", "Eve <ada@example.com>", "ada@example.com>\r\nDATA", "ada@exam\u0085ple.com",
		"\"ada\r\n eve\"@example.com", strings.Repeat("a", 250) + "@example.com",
	} {
		e := testEmail()
		e.To = evil
		err := mailer.Send(t.Context(), e)
		var never interface{ DeadLetterCode() string }
		if !errors.As(err, &never) || never.DeadLetterCode() != "bad-recipient" || strings.Contains(err.Error(), "eve") {
			t.Errorf("to %q: error %v", evil, err)
		}
	}
	if n := len(server.Received()); n > 0 {
		t.Errorf("%d e-mails went out", n)
	}
}

// TestNothingBreaksOutOfAnEmail sends what no e-mail should hold, and reads what a mail server
// understands.
func TestNothingBreaksOutOfAnEmail(t *testing.T) {
	t.Parallel()
	const evil = "x\r\nBcc: eve@example.com\r\n\r\n<script>alert(1)</script>\r\n.\r\nRCPT TO:<eve@example.com>\x00\u2028\u202e"
	server, mailer := startMail(t)
	good, bad := testEmail(), testEmail()
	bad.Subject, bad.Text = evil, evil
	for _, e := range []Email{good, bad} {
		if err := mailer.Send(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	all := server.Received()
	if len(all) != 2 {
		t.Fatalf("%d e-mails, want 2", len(all))
	}
	for _, e := range all {
		if !slices.Equal(e.To, []string{"ada@example.com"}) || !slices.Equal(e.HeaderNames(), all[0].HeaderNames()) {
			t.Errorf("to %v with headers %v", e.To, e.HeaderNames())
		}
		if _, html := e.Bodies(t); html != good.HTML {
			t.Errorf("HTML %s", html)
		}
	}
}

func TestNewSMTPWantsAURL(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "mail.example.com:25", "http://mail.example.com", "smtp://", "smtp://h:port", "smtp://h:0", "smtps://h:65536"} {
		if _, err := NewSMTP(bad, 1); err == nil {
			t.Errorf("took %q", bad)
		}
	}
	for url, want := range map[string]string{
		"smtp://h": "h:587", "smtps://h": "h:465", "smtp://h:25": "h:25", "smtp://[::1]:25": "[::1]:25",
	} {
		if got := newMailer(t, url).address(); got != want {
			t.Errorf("%s is at %s, want %s", url, got, want)
		}
	}
}
