package mailer

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/smtptest"
)

func TestNobodyIsAddedToTheRecipients(t *testing.T) {
	t.Parallel()
	server := &smtptest.Server{}
	p := newPublisher(t, start(t, server, 8))
	for _, evil := range []string{
		"ada", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com\nX: y", "ada@example.com\r\nRCPT TO:<eve@example.com>",
		"ada@example.com\x00", "ada@example.com, eve@example.com", "Eve <ada@example.com>", "ada@example.com>\r\nDATA", "ada@exam\u0085ple.com",
		"\"ada\r\n eve\"@example.com", strings.Repeat("a", 250) + "@example.com", "ada@", "@example.com", "ada@\u2028.example",
		"ada@" + strings.Repeat("ü.", 80) + "example", "ada@example.com> SIZE=1", "ada@\u202egrün.example",
	} {
		r := send(p, publish.Message{ID: "1", Topic: "example.com", Body: []byte(evil)})[0]
		if r.Outcome != publish.Invalid || strings.Contains(r.Err.Error(), "eve") || strings.Contains(r.Err.Error(), "ada") {
			t.Errorf("to %q: %s (%v)", evil, names[r.Outcome], r.Err)
		}
	}
	if n := len(server.Received()); n > 0 {
		t.Errorf("%d e-mails went out", n)
	}
}

// TestSMTPUTF8IsAskedForOnlyWhereItIsNeeded: not every server supports it.
func TestSMTPUTF8IsAskedForOnlyWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		to, rcpt, offered string
		use               bool
		want              publish.Outcome
	}{
		{"ada@example.com", "ada@example.com", "SMTPUTF8", false, publish.Confirmed},
		{"grüße@example.com", "grüße@example.com", "SMTPUTF8", true, publish.Confirmed},
		{"grüße@example.com", "grüße@example.com", "smtpUTF8", true, publish.Confirmed},
		{"grüße@example.com", "", "8BITMIME", false, publish.Invalid},
		{"ada@Grün.example", "ada@xn--grn-ioa.example", "8BITMIME", false, publish.Confirmed},
		{"ada@Grün.example", "ada@xn--grn-ioa.example", "SMTPUTF8", false, publish.Confirmed},
		{"Ada_B@Sub_Domain.Example", "Ada_B@sub_domain.example", "8BITMIME", false, publish.Confirmed},
	} {
		server := &smtptest.Server{Script: smtptest.Script{"EHLO": "250-localhost\r\n250 " + test.offered}}
		p := newPublisher(t, start(t, server, 8))
		if r := send(p, message(test.to))[0]; r.Outcome != test.want {
			t.Errorf("to %s: %s (%v)", test.to, names[r.Outcome], r.Err)
		}
		if got := server.Said("MAIL FROM:<shop@example.com> SMTPUTF8"); got != test.use {
			t.Errorf("SMTPUTF8 for %s: %t, want %t", test.to, got, test.use)
		}
		if test.rcpt != "" && !server.Said("RCPT TO:<"+test.rcpt+">") {
			t.Errorf("to %s: not sent to %s", test.to, test.rcpt)
		}
		confirm(t, p, message("ada@example.com")) // the others go on
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

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestAnErrorOrAPanicOfComposeIsRefused(t *testing.T) {
	t.Parallel()
	var none *nilError
	for name, compose := range map[string]func(publish.Message) (Email, error){
		"error": func(publish.Message) (Email, error) { return Email{}, errors.New("no template") },
		"panic": func(publish.Message) (Email, error) { panic("no template") },
		"nil":   func(publish.Message) (Email, error) { return Email{}, none },
	} {
		server := &smtptest.Server{}
		d := start(t, server, 1)
		d.Compose = compose
		p := newPublisher(t, d)
		for range 3 { // the connection is not lost
			if r := sendOne(p); r.Outcome != publish.Refused || r.Err == nil {
				t.Errorf("%s: %s (%v)", name, names[r.Outcome], r.Err)
			}
		}
		if server.Times("greeting") != 1 || server.Times("MAIL") != 0 {
			t.Errorf("%s: %d connections, %d MAIL", name, server.Times("greeting"), server.Times("MAIL"))
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
	confirm(t, p, message("ada@example.com"))
	if r := send(p, publish.Message{Body: []byte("nobody")})[0]; r.Outcome != publish.Invalid {
		t.Errorf("%s (%v)", names[r.Outcome], r.Err)
	}
	if text := log.String(); !strings.Contains(text, "to=a…@example.com") || !strings.Contains(text, "message_id=42") ||
		!strings.Contains(text, "subject=Grüße") || strings.Contains(text, "ada") || strings.Contains(text, "nobody") {
		t.Error(text)
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
		"SMTPS://h": "h:465", "LOG:": "log",
	} {
		if got := newDestination(t, url, 0).Name(); got != want {
			t.Errorf("%s is at %s, want %s", url, got, want)
		}
	}
}
