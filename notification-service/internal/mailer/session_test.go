package mailer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/smtptest"
)

// TestWhatAConnectionNeeds: a greeting, and a login over TLS if there is a password. Of the logins that
// the server offers one is tried, and no other after it was refused.
func TestWhatAConnectionNeeds(t *testing.T) {
	t.Parallel()
	type script = smtptest.Script
	const plain, starttls, over = "smtp://", "smtp://shop:secret@", "smtps://shop:secret@"
	secure, trusted := smtptest.Certificate()
	offers := func(logins string) script {
		return script{"EHLO": "250-localhost\r\n250 AUTH " + logins, "AUTH": "535 wrong"}
	}
	itself := "EHLO [127.0.0.1]"
	if name, _ := os.Hostname(); strings.Contains(name, ".") {
		itself = "EHLO " + name
	}
	for name, test := range map[string]struct {
		url    string
		tls    *tls.Config
		script script
		opens  bool
		says   string // a command that the server gets
	}{
		"plain":                  {plain, nil, nil, true, itself},
		"its name":               {plain, nil, nil, true, "EHLO shop.example.com"},
		"greeting: busy":         {plain, nil, script{"greeting": "421 too busy"}, false, ""},
		"greeting: no service":   {plain, nil, script{"greeting": "554 no SMTP service"}, false, ""},
		"greeting: not SMTP":     {plain, nil, script{"greeting": "HTTP/1.1 400 Bad Request"}, false, ""},
		"greeting: not UTF-8":    {plain, nil, script{"greeting": "554 g\xfcltig"}, false, ""},
		"greeting: closed":       {plain, nil, script{"greeting": smtptest.HangUp}, false, ""},
		"greeting: silence":      {plain, nil, script{"greeting": smtptest.Silence}, false, ""},
		"greeting: drip":         {plain, nil, script{"greeting": smtptest.Drip}, false, ""},
		"EHLO and HELO: later":   {plain, nil, script{"EHLO": "450 later", "HELO": "450 later"}, false, "HELO"},
		"EHLO: without end":      {plain, nil, script{"EHLO": smtptest.Flood}, false, ""},
		"STARTTLS if offered":    {plain, secure, nil, true, "STARTTLS"},
		"after STARTTLS":         {starttls, secure, nil, true, "AUTH PLAIN"},
		"over TLS":               {over, secure, nil, true, "AUTH PLAIN"},
		"changed password":       {over, secure, nil, true, "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00shop\x00new"))},
		"unreadable password":    {over, secure, nil, false, ""},
		"never without TLS":      {starttls, nil, offers("PLAIN LOGIN CRAM-MD5"), false, ""},
		"never to a stranger":    {starttls, secure, nil, false, "STARTTLS"},
		"a stranger over TLS":    {over, secure, nil, false, ""},
		"STARTTLS fails":         {starttls, secure, script{"STARTTLS": "454 not now"}, false, "STARTTLS"},
		"smtps, but speaks SMTP": {over, nil, nil, false, ""},
		"wrong password":         {over, secure, offers("NTLM CRAM-MD5 LOGIN PLAIN"), false, "AUTH PLAIN"},
		"without PLAIN":          {over, secure, offers("NTLM CRAM-MD5 LOGIN"), false, "AUTH LOGIN"},
		"without LOGIN":          {over, secure, offers("SCRAM-SHA-256 NTLM CRAM-MD5"), false, "AUTH CRAM-MD5"},
		"only NTLM":              {over, secure, offers("NTLM"), false, ""},
		"starttls":               {plain, secure, script{"EHLO": "250-localhost\r\n250 starttls"}, true, "STARTTLS"},
		"StartTLS and auth":      {starttls, secure, script{"EHLO 1": "250-localhost\r\n250 StartTLS", "EHLO 2": "250-localhost\r\n250 auth Plain"}, true, "AUTH PLAIN"},
		"AUTH= of old servers":   {over, secure, script{"EHLO": "250-localhost\r\n250 Auth=ntlm login"}, true, "AUTH LOGIN"},
		"a line without a text":  {plain, nil, script{"EHLO": "250-localhost\r\n250-SIZE 1000\r\n250 "}, true, ""},
		"only the code":          {plain, nil, script{"EHLO": "250-localhost\r\n250"}, true, ""},
		"AUTH= and AUTH":         {over, secure, script{"EHLO": "250-localhost\r\n250-AUTH PLAIN LOGIN\r\n250 AUTH=PLAIN LOGIN"}, true, "AUTH PLAIN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &smtptest.Server{Script: test.script, TLS: test.tls, TLSFirst: test.url == over && test.tls != nil}
			d := newDestination(t, test.url+server.Start(t), 1)
			if !strings.Contains(name, "stranger") {
				d.tls.RootCAs = trusted
			}
			if strings.HasPrefix(name, "greeting: ") {
				d.limits.greeting = time.Second // and in this time it says nothing
			}
			d.Helo = map[string]string{"its name": "shop.example.com"}[name]
			if password, ok := map[string]string{"changed password": "new", "unreadable password": "secret%"}[name]; ok {
				d.FreshURL = func() (string, error) { return "smtps://shop:" + password + "@localhost", nil }
			}
			c, err := d.dial(t.Context())
			if err == nil {
				c.close()
			}
			if (err == nil) != test.opens || err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want a connection: %t", err, test.opens)
			}
			if test.says != "" && !server.Said(test.says) {
				t.Errorf("it does not say %s", test.says)
			}
			if login := strings.HasPrefix(test.says, "AUTH"); server.Times("AUTH") > 1 || server.Said("AUTH") != login {
				t.Errorf("%d logins, wanted: %t", server.Times("AUTH"), login)
			}
		})
	}
}

// TestOnlyTheReplyToEHLOIsReadWithoutItsCase, also if it arrives in pieces.
func TestOnlyTheReplyToEHLOIsReadWithoutItsCase(t *testing.T) {
	t.Parallel()
	const text = "250-Grüße\r\n250-Auth=Plain\r\n250 auth Login\t\r\r\n" + "550 No, \xff\r\n"
	for name, raw := range map[string]io.Reader{"whole": strings.NewReader(text), "pieces": iotest.OneByteReader(strings.NewReader(text))} {
		reply := &ehloReply{replies: bufio.NewReader(raw)}
		got, err := io.ReadAll(iotest.OneByteReader(reply))
		if want := "250-GRÜßE\r\n250-AUTH PLAIN\r\n250 AUTH LOGIN\r\n550 No, \xff\r\n"; string(got) != want || err != nil {
			t.Errorf("%s: %q (%v), want %q", name, got, err, want)
		}
	}
}

// TestWithoutAServerThereAreGrowingPauses, and few lines in the log. Time is virtual: only the
// connections are real, and each of them fails at once.
func TestWithoutAServerThereAreGrowingPauses(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	server := &smtptest.Server{Script: smtptest.Script{"greeting": smtptest.HangUp}}
	address := server.Start(t)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := newDestination(t, "smtp://shop:secret@"+address, 8)
		d.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := d.KeepConnected(ctx, nil); err != nil {
			t.Error(err)
		}
		attempts.Store(int32(server.Times("greeting")))
		if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > 30 || strings.Contains(log.String(), "secret") {
			t.Errorf("%d lines in 5 minutes: %s", lines, log.String())
		}
	})
	if n := attempts.Load(); n < 20 || n > 80 {
		t.Errorf("%d attempts in 5 minutes, with pauses of 10 s at most", n)
	}
}

// TestARestartBetweenTwoEmailsCostsNothing: neither an e-mail nor the session, although all kept
// connections are dead.
func TestARestartBetweenTwoEmailsCostsNothing(t *testing.T) {
	t.Parallel()
	listener := smtptest.Listen(t)
	address := listener.Addr().String()
	const connections = 4
	var used sync.WaitGroup // all of them, so that none is being opened when the server stops
	used.Add(connections)
	var arrived atomic.Int32
	m := &smtptest.Server{At: func(step, _ string) string {
		if step == "." && arrived.Add(1) <= connections {
			used.Done()
			used.Wait()
		}
		return ""
	}}
	stop := m.Serve(listener)
	s, lost := connect(t, newDestination(t, "smtp://"+address, connections))
	p, _ := s.NewPublisher(1)
	defer p.Close()
	confirm(t, p, spread(30, 10, "ada")...)
	stop()
	again, err := net.Listen("tcp", address)
	check.Must(t, err)
	defer m.Serve(again)()
	confirm(t, p, spread(3, 1, "ada")...)
	if got := len(m.Received()); lost.Err() != nil || got != 33 {
		t.Errorf("%d e-mails, want 33; the session is lost: %v", got, context.Cause(lost))
	}
}

// TestP12WhatIsBegunIsFinished when the contexts end, and nothing more is begun.
func TestP12WhatIsBegunIsFinished(t *testing.T) {
	t.Parallel()
	var began sync.WaitGroup
	began.Add(2)
	answer := make(chan struct{})
	d := start(t, &smtptest.Server{At: func(step, _ string) string {
		if step == "." {
			began.Done()
			<-answer
		}
		return ""
	}}, 2)
	session, endSession := context.WithCancel(t.Context())
	err := d.KeepConnected(session, func(ended context.Context, s publish.Session) error {
		p, _ := s.NewPublisher(1)
		defer p.Close()
		ctx, end := context.WithCancel(t.Context())
		results := begin(ctx, p, spread(10, 10, "ada")...)
		began.Wait()
		endSession()
		<-ended.Done()
		end()
		for range 8 {
			if r := <-results; r.Outcome != publish.NotSent {
				t.Errorf("not begun: %s (%v)", names[r.Outcome], r.Err)
			}
		}
		close(answer)
		for range 2 {
			if r := <-results; r.Outcome != publish.Confirmed {
				t.Errorf("begun: %s (%v)", names[r.Outcome], r.Err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCloseBreaksOffWhatIsBegun, at any step, and answers everything.
func TestCloseBreaksOffWhatIsBegun(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]publish.Outcome{
		"MAIL": publish.NotSent, "RCPT": publish.NotSent, "DATA": publish.NotSent, ".": publish.Unknown,
	} {
		server := &smtptest.Server{Script: smtptest.Script{step: smtptest.Silence}}
		p := newPublisher(t, start(t, server, 1))
		results := begin(t.Context(), p, spread(2, 2, "ada")...)
		check.Await(t, step, func() bool { return server.Times(step) == 1 })
		p.Close()
		got := map[publish.Outcome]int{(<-results).Outcome: 1}
		got[(<-results).Outcome]++
		if got[want] == 0 || got[want]+got[publish.NotSent] < 2 {
			t.Errorf("%s: %v", step, got)
		}
		if r := sendOne(p); r.Outcome != publish.NotSent {
			t.Errorf("after Close: %s (%v)", names[r.Outcome], r.Err)
		}
	}
}

// TestAConnectionEndsWithQUIT: after some e-mails, after a time, when it is idle, and with the last
// session, whatever the server answers.
func TestAConnectionEndsWithQUIT(t *testing.T) {
	t.Parallel()
	for name, shorten := range map[string]func(*limits){
		"e-mails": func(l *limits) { l.emails = 1 },
		"time":    func(l *limits) { l.age = 50 * time.Millisecond },
		"idle":    func(l *limits) { l.idle = 20 * time.Millisecond },
	} {
		server := &smtptest.Server{}
		d := start(t, server, 1)
		shorten(&d.limits)
		p := newPublisher(t, d)
		for i := range 3 {
			confirm(t, p, message("ada@example.com"))
			check.Await(t, name, func() bool { return server.Times("QUIT") > i })
		}
	}
	for _, answer := range []string{"221 bye", smtptest.Silence, smtptest.HangUp} {
		// Each e-mail has a connection of its own, so no connection is still being opened at the end.
		var all sync.WaitGroup
		all.Add(3)
		server := &smtptest.Server{Script: smtptest.Script{"QUIT": answer}, At: func(step, _ string) string {
			if step == "RCPT" {
				all.Done()
				all.Wait()
			}
			return ""
		}}
		d := start(t, server, 6)
		d.limits.quit = 50 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		err := d.KeepConnected(ctx, func(_ context.Context, s publish.Session) error {
			p, _ := s.NewPublisher(3)
			confirm(t, p, spread(3, 3, "ada")...)
			p.Close()
			cancel()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		check.Await(t, "each connection ends with QUIT", func() bool { return server.Times("greeting") == server.Times("QUIT") })
	}
}
