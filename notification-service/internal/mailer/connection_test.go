package mailer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// stepTimeout is far longer than any step of these tests takes.
const stepTimeout = 10 * time.Second

// TestTheEndOfTheContextEndsAnyStep, also if the server is silent or its answer never ends.
func TestTheEndOfTheContextEndsAnyStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"greeting", "EHLO", "MAIL", "RCPT", "DATA", "."} {
		for _, manner := range []string{silence, drip} {
			t.Run(step+" "+manner, func(t *testing.T) {
				t.Parallel()
				server := &scriptedServer{script: script{step: manner}}
				mailer := newMailer(t, "smtp://"+server.start(t))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- mailer.Send(ctx, testEmail()) }()
				if reached := <-server.reached; reached != step {
					t.Errorf("stands at %q", reached)
				}
				cancel()
				wantError(t, ended, context.Canceled)
			})
		}
	}
}

// TestTheEndOfTheContextEndsAWaitForAConnection: another e-mail has the only one.
func TestTheEndOfTheContextEndsAWaitForAConnection(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{".": silence}}
	mailer := newMailers(t, "smtp://"+server.start(t), 1)
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	defer cancelSecond()
	ended := make(chan error, 2)
	go func() { ended <- mailer.Send(first, testEmail()) }()
	<-server.reached
	go func() { ended <- mailer.Send(second, testEmail()) }()
	cancelSecond()
	wantError(t, ended, context.Canceled)
	cancelFirst()
	wantError(t, ended, context.Canceled)
	if n := server.times("greeting"); n != 1 {
		t.Errorf("%d connections, want one", n)
	}
}

// TestNoStepOutlivesTheContext: go-mail sets a deadline for each step.
func TestNoStepOutlivesTheContext(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{"greeting": silence}}
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.start(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &connection{conn: conn}
	defer c.close()
	defer c.interruptWhenDone(ctx)()
	cancel()
	ended := make(chan error, 1)
	for range 2 { // the second step begins after the end
		go func() { _, err := conn.Read(make([]byte, 1)); ended <- &UnavailableError{Cause: err} }()
		wantError(t, ended, os.ErrDeadlineExceeded)
		if err := (&limitedConn{Conn: conn}).SetDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		c.setDeadline(ctx, time.Hour, time.Time{})
	}
}

func wantError(t *testing.T, ended <-chan error, want error) {
	t.Helper()
	select {
	case err := <-ended:
		if errorKind(err) != "without mail" || !errors.Is(err, want) {
			t.Errorf("error %v is %q, want one of %v", err, errorKind(err), want)
		}
	case <-time.After(stepTimeout):
		t.Fatal("it does not end")
	}
}

func TestTheLogin(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	for name, test := range map[string]struct {
		server    *scriptedServer
		scheme    string
		untrusted bool
		want      string
		loggedIn  bool
	}{
		"after STARTTLS":         {server: &scriptedServer{tls: secure}, scheme: "smtp", want: "none", loggedIn: true},
		"over TLS":               {server: &scriptedServer{tls: secure, tlsFirst: true}, scheme: "smtps", want: "none", loggedIn: true},
		"never without TLS":      {server: &scriptedServer{script: script{"EHLO": "250-localhost\r\n250 AUTH CRAM-MD5 PLAIN LOGIN"}}, scheme: "smtp", want: "without mail"},
		"never to a stranger":    {server: &scriptedServer{tls: secure}, scheme: "smtp", untrusted: true, want: "without mail"},
		"nor over TLS":           {server: &scriptedServer{tls: secure, tlsFirst: true}, scheme: "smtps", untrusted: true, want: "without mail"},
		"STARTTLS fails":         {server: &scriptedServer{tls: secure, script: script{"STARTTLS": "454 not now"}}, scheme: "smtp", want: "without mail"},
		"smtps, but speaks SMTP": {server: &scriptedServer{}, scheme: "smtps", want: "without mail"},
		"wrong password":         {server: &scriptedServer{tls: secure, script: script{"AUTH": "535 wrong"}}, scheme: "smtp", want: "without mail", loggedIn: true},
		"login not possible now": {server: &scriptedServer{tls: secure, script: script{"AUTH": "454 not now"}}, scheme: "smtp", want: "without mail", loggedIn: true},
		"login not enough":       {server: &scriptedServer{tls: secure, script: script{"MAIL": "530 log in"}}, scheme: "smtp", want: "without mail", loggedIn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mailer := newMailer(t, test.scheme+"://shop:secret@"+test.server.start(t))
			if !test.untrusted {
				mailer.tls.RootCAs = trusted
			}
			if err := mailer.Send(t.Context(), testEmail()); errorKind(err) != test.want {
				t.Errorf("error %v is %q, want %q", err, errorKind(err), test.want)
			}
			if err := mailer.Probe(t.Context()); errorKind(err) != test.want {
				t.Errorf("Probe: error %v is %q, want %q", err, errorKind(err), test.want)
			}
			if said := test.server.said("AUTH "); said != test.loggedIn {
				t.Errorf("sent its password: %t, want %t", said, test.loggedIn)
			}
		})
	}
}

func TestWithoutCredentialsSTARTTLSIsUsedIfOffered(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	for offered, config := range map[bool]*tls.Config{true: secure, false: nil} {
		server := &scriptedServer{tls: config}
		mailer := newMailer(t, "smtp://"+server.start(t))
		mailer.tls.RootCAs = trusted
		if err := mailer.Send(t.Context(), testEmail()); err != nil {
			t.Error(err)
		}
		if used := server.said("STARTTLS"); used != offered {
			t.Errorf("STARTTLS used: %t, offered: %t", used, offered)
		}
	}
}

// TestSMTPUTF8IsAskedForOnlyWhereItIsNeeded: not every server supports it.
func TestSMTPUTF8IsAskedForOnlyWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]bool{"ada@example.com": false, "grüße@example.com": true} {
		server := &scriptedServer{script: script{"EHLO": "250-localhost\r\n250 SMTPUTF8"}}
		e := testEmail()
		e.To = to
		if err := newMailer(t, "smtp://"+server.start(t)).Send(t.Context(), e); err != nil {
			t.Error(err)
		}
		if got := server.said("MAIL FROM:<shop@example.com> SMTPUTF8"); got != want {
			t.Errorf("SMTPUTF8 for %s: %t, want %t", to, got, want)
		}
	}
}
