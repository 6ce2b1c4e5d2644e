package notification

import (
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestSMTPSendsTheEmail(t *testing.T) {
	t.Parallel()
	server, mailer := startMail(t)
	if err := mailer.Send(t.Context(), letterToAda()); err != nil {
		t.Fatal(err)
	}
	got := server.letters()[0]
	for header, want := range map[string]string{
		"Message-ID": "<42@example.com>", "To": "<ada@example.com>", "From": "<shop@example.com>", "Date": "Fri, 02 Jan 2026 03:04:05 +0000",
		"Subject": "=?UTF-8?q?Gr=C3=BC=C3=9Fe?=", "Auto-Submitted": "auto-generated",
	} {
		if is := got.header.Get(header); is != want {
			t.Errorf("%s: %q, want %q", header, is, want)
		}
	}
	text, html := bodies(t, got)
	if want := letterToAda(); text != want.Text || html != want.HTML {
		t.Errorf("text %q and HTML %q, want %q and %q", text, html, want.Text, want.HTML)
	}
}

// bodies reads both parts of an e-mail, as a mail program does.
func bodies(t *testing.T, l taken) (text, html string) {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(l.header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("Content-Type %q, error %v", kind, err)
	}
	parts := multipart.NewReader(strings.NewReader(string(l.body)), parameters["boundary"])
	var found []string
	for _, want := range []string{"text/plain; charset=UTF-8", "text/html; charset=UTF-8"} {
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if is := part.Header.Get("Content-Type"); err != nil || is != want {
			t.Errorf("part %q, want %q; error %v", is, want, err)
		}
		found = append(found, strings.ReplaceAll(string(body), "\r\n", "\n"))
	}
	if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
		t.Errorf("there is a third part, or trouble: %v", err)
	}
	return found[0], found[1]
}

func TestNobodyIsAddedToTheRecipients(t *testing.T) {
	t.Parallel()
	server, mailer := startMail(t)
	for _, evil := range []string{
		"", "ada", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com\nX: y", "ada@example.com\r\nRCPT TO:<eve@example.com>",
		"ada@example.com\x00", "ada@example.com, eve@example.com", "Eve <ada@example.com>", "ada@example.com>\r\nDATA", "ada@exam\u0085ple.com",
		"\"ada\r\n eve\"@example.com", strings.Repeat("a", 250) + "@example.com",
	} {
		e := letterToAda()
		e.To = evil
		err := mailer.Send(t.Context(), e)
		var never interface{ DeadLetterCode() string }
		if !errors.As(err, &never) || never.DeadLetterCode() != "bad-recipient" || strings.Contains(err.Error(), "eve") {
			t.Errorf("to %q: error %v", evil, err)
		}
	}
	if n := len(server.letters()); n > 0 {
		t.Errorf("%d e-mails went out", n)
	}
}

// TestNothingBreaksOutOfAnEmail sends what an event should never hold, and reads what
// a mail server understands.
func TestNothingBreaksOutOfAnEmail(t *testing.T) {
	t.Parallel()
	const evil = "x\r\nBcc: eve@example.com\r\n\r\n<script>alert(1)</script>\r\n.\r\nRCPT TO:<eve@example.com>\x00\u2028\u202e"
	server, mailer := startMail(t)
	good := composed(t, "sku123", "GBP")
	bad := composed(t, evil, "<b>")
	bad.ID = good.ID
	worse := good
	worse.Subject, worse.Text, worse.HTML = evil, evil, good.HTML
	for _, e := range []Email{good, bad, worse} {
		if err := mailer.Send(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	all := server.letters()
	if len(all) != 3 {
		t.Fatalf("%d e-mails, want 3", len(all))
	}
	for _, l := range all {
		if !slices.Equal(l.to, []string{"ada@example.com"}) || !slices.Equal(names(l.header), names(all[0].header)) {
			t.Errorf("to %v with headers %v", l.to, names(l.header))
		}
		if _, html := bodies(t, l); strings.Contains(html, "<script") || strings.Contains(html, "<b>") {
			t.Errorf("HTML %s", html)
		}
	}
	if text, _ := bodies(t, all[1]); strings.Contains(text, "\nBcc") || strings.Contains(text, "\n.\n") {
		t.Errorf("the product makes lines of its own:\n%s", text)
	}
}

func names(h mail.Header) []string { return slices.Sorted(maps.Keys(h)) }

// composed is the e-mail for an order of anything.
func composed(t *testing.T, product, currency string) Email {
	t.Helper()
	event := Event{Key: OrderCreated, OrderID: uuid.New(), ProductID: product, Quantity: 2, Amount: 5998, Currency: currency}
	n := Notification{MessageID: uuid.New(), EventKey: OrderCreated, Recipient: "ada@example.com", Event: event}
	e, err := NewService(Config{From: "shop@example.com"}, nil, nil, nil).compose(n)
	if err != nil {
		t.Fatal(err)
	}
	return e
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
