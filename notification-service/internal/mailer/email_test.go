package mailer

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/outbox/publish"
)

func TestTheEmail(t *testing.T) {
	t.Parallel()
	server, p := startMail(t)
	confirm(t, p, 1)
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
	server, p := startMail(t)
	for _, evil := range []string{
		"ada", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com\nX: y", "ada@example.com\r\nRCPT TO:<eve@example.com>",
		"ada@example.com\x00", "ada@example.com, eve@example.com", "Eve <ada@example.com>", "ada@example.com>\r\nDATA", "ada@exam\u0085ple.com",
		"\"ada\r\n eve\"@example.com", strings.Repeat("a", 250) + "@example.com", "ada@", "@example.com", "ada@\u2028.example",
		"ada@" + strings.Repeat("ü.", 80) + "example", "ada@example.com> SIZE=1", "ada@\u202egrün.example",
	} {
		r := send(t, p, publish.Message{ID: "1", Topic: "example.com", Body: []byte(evil)})[0]
		if r.Outcome != publish.Invalid || strings.Contains(r.Err.Error(), "eve") || strings.Contains(r.Err.Error(), "ada") {
			t.Errorf("to %q: %s (%v)", evil, names[r.Outcome], r.Err)
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
	server, p := startMail(t)
	p.(*publisher).Compose = func(m publish.Message) (Email, error) {
		e := testEmail()
		if m.ID == "evil" {
			e.Subject, e.Text = evil, evil
		}
		return e, nil
	}
	good, bad := message("ada@example.com"), message("ada@example.com")
	bad.ID = "evil"
	for _, r := range send(t, p, good, bad) {
		if r.Outcome != publish.Confirmed {
			t.Fatal(r.Err)
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
		if _, html := e.Bodies(t); html != testEmail().HTML {
			t.Errorf("HTML %s", html)
		}
	}
}

// TestSMTPUTF8IsAskedForOnlyWhereItIsNeeded: not every server supports it.
func TestSMTPUTF8IsAskedForOnlyWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		to, rcpt     string
		offered, use bool
		want         publish.Outcome
	}{
		{"ada@example.com", "ada@example.com", true, false, publish.Confirmed},
		{"grüße@example.com", "grüße@example.com", true, true, publish.Confirmed},
		{"grüße@example.com", "", false, false, publish.Invalid},
		{"ada@Grün.example", "ada@xn--grn-ioa.example", false, false, publish.Confirmed},
		{"ada@Grün.example", "ada@xn--grn-ioa.example", true, false, publish.Confirmed},
		{"Ada_B@Sub_Domain.Example", "Ada_B@sub_domain.example", false, false, publish.Confirmed},
	} {
		server := &scriptedServer{script: script{"EHLO": "250-localhost\r\n250 8BITMIME"}}
		if test.offered {
			server.script["EHLO"] = "250-localhost\r\n250 SMTPUTF8"
		}
		p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8))
		if r := send(t, p, message(test.to))[0]; r.Outcome != test.want {
			t.Errorf("to %s: %s (%v)", test.to, names[r.Outcome], r.Err)
		}
		if got := server.said("MAIL FROM:<shop@example.com> SMTPUTF8"); got != test.use {
			t.Errorf("SMTPUTF8 for %s: %t, want %t", test.to, got, test.use)
		}
		if test.rcpt != "" && !server.said("RCPT TO:<"+test.rcpt+">") {
			t.Errorf("to %s: not sent to %s", test.to, test.rcpt)
		}
		confirm(t, p, 1) // the others go on
	}
}

func TestDomain(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"Ada@Example.COM": "example.com", "ada@GRÜN.example": "xn--grn-ioa.example", "ada@xn--grn-ioa.example": "xn--grn-ioa.example",
		"ada@[127.0.0.1]": "[127.0.0.1]", "a_b@c_d.example": "c_d.example",
	} {
		if got := Domain(address); got != want {
			t.Errorf("%s has the domain %q, want %q", address, got, want)
		}
	}
}

func TestLogDestination(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d, err := New(Config{URL: "log:", From: "shop@example.com", Compose: compose, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, d)
	confirm(t, p, 1)
	if r := send(t, p, publish.Message{Body: []byte("nobody")})[0]; r.Outcome != publish.Invalid {
		t.Errorf("%s (%v)", names[r.Outcome], r.Err)
	}
	if text := log.String(); !strings.Contains(text, "to=a…@example.com") || !strings.Contains(text, "message_id=42") ||
		!strings.Contains(text, "subject=Grüße") || strings.Contains(text, "ada") || strings.Contains(text, "nobody") {
		t.Error(text)
	}
	if d.Name() != "log" || d.System() != "smtp" {
		t.Error(d.Name(), d.System())
	}
}

func TestNewWantsSettingsThatWork(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "mail.example.com:25", "http://mail.example.com", "smtp://", "smtp://h:port", "smtp://h:0", "smtps://h:65536",
		"smtp://user@h", "smtp://user:@h", "smtp://:secret@h", "log:x",
	} {
		if _, err := New(Config{URL: bad, From: "shop@example.com", Compose: compose}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	for _, from := range []string{"", "shop", "Shop <shop@example.com>", "shop@example.com\r\nBcc: eve@example.com"} {
		if _, err := New(Config{URL: "smtp://h", From: from, Compose: compose}); err == nil {
			t.Errorf("took the sender %q", from)
		}
	}
	for url, want := range map[string]string{
		"smtp://h": "h:587", "smtps://h": "h:465", "smtp://h:25": "h:25", "smtp://[::1]:25": "[::1]:25", "smtp://shop:secret@h": "h:587",
	} {
		if got := newDestination(t, url, 0).Name(); got != want {
			t.Errorf("%s is at %s, want %s", url, got, want)
		}
	}
}
