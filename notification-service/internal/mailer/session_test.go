package mailer

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/servers"
)

// reachable reports whether there is a session within a time.
func reachable(t *testing.T, d *Destination, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	reached := false
	err := d.KeepConnected(ctx, func(context.Context, publish.Session) error {
		reached = true
		cancel()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return reached
}

func TestASessionNeedsAGreetingAndALogin(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	for name, test := range map[string]struct {
		server    *scriptedServer
		url       string
		untrusted bool
		want      bool
		loggedIn  bool
	}{
		"plain":                  {server: &scriptedServer{}, url: "smtp://", want: true},
		"greeting: busy":         {server: &scriptedServer{script: script{"greeting": "421 too busy"}}, url: "smtp://"},
		"greeting: no service":   {server: &scriptedServer{script: script{"greeting": "554 no SMTP service"}}, url: "smtp://"},
		"greeting: not SMTP":     {server: &scriptedServer{script: script{"greeting": "HTTP/1.1 400 Bad Request"}}, url: "smtp://"},
		"greeting: g\xfcltig":    {server: &scriptedServer{script: script{"greeting": "554 g\xfcltig"}}, url: "smtp://"},
		"greeting: closed":       {server: &scriptedServer{script: script{"greeting": hangUp}}, url: "smtp://"},
		"EHLO and HELO: later":   {server: &scriptedServer{script: script{"EHLO": "450 later", "HELO": "450 later"}}, url: "smtp://"},
		"EHLO: closed":           {server: &scriptedServer{script: script{"EHLO": hangUp}}, url: "smtp://"},
		"EHLO: without end":      {server: &scriptedServer{script: script{"EHLO": flood}}, url: "smtp://"},
		"after STARTTLS":         {server: &scriptedServer{tls: secure}, url: "smtp://shop:secret@", want: true, loggedIn: true},
		"over TLS":               {server: &scriptedServer{tls: secure, tlsFirst: true}, url: "smtps://shop:secret@", want: true, loggedIn: true},
		"never without TLS":      {server: &scriptedServer{script: script{"EHLO": "250-localhost\r\n250 AUTH CRAM-MD5 PLAIN LOGIN"}}, url: "smtp://shop:secret@"},
		"never to a stranger":    {server: &scriptedServer{tls: secure}, url: "smtp://shop:secret@", untrusted: true},
		"nor over TLS":           {server: &scriptedServer{tls: secure, tlsFirst: true}, url: "smtps://shop:secret@", untrusted: true},
		"STARTTLS fails":         {server: &scriptedServer{tls: secure, script: script{"STARTTLS": "454 not now"}}, url: "smtp://shop:secret@"},
		"smtps, but speaks SMTP": {server: &scriptedServer{}, url: "smtps://shop:secret@"},
		"wrong password":         {server: &scriptedServer{tls: secure, script: script{"AUTH": "535 wrong"}}, url: "smtp://shop:secret@", loggedIn: true},
		"login not possible now": {server: &scriptedServer{tls: secure, script: script{"AUTH": "454 not now"}}, url: "smtp://shop:secret@", loggedIn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDestination(t, test.url+test.server.start(t), 8)
			if !test.untrusted {
				d.tls.RootCAs = trusted
			}
			within := 500 * time.Millisecond // for what is never reached
			if test.want {
				within = stepTimeout
			}
			if got := reachable(t, d, within); got != test.want {
				t.Errorf("reachable: %t", got)
			}
			if said := test.server.said("AUTH "); said != test.loggedIn {
				t.Errorf("sent its password: %t, want %t", said, test.loggedIn)
			}
		})
	}
}

// TestOneLoginIsTried of those that the server offers, and no other after it was refused.
func TestOneLoginIsTried(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	for offered, want := range map[string]string{
		"NTLM CRAM-MD5 LOGIN PLAIN": "AUTH PLAIN", "NTLM CRAM-MD5 LOGIN": "AUTH LOGIN", "SCRAM-SHA-256 NTLM CRAM-MD5": "AUTH CRAM-MD5", "NTLM": "",
	} {
		server := &scriptedServer{tls: secure, tlsFirst: true, script: script{"EHLO": "250-localhost\r\n250 AUTH " + offered, "AUTH": "535 wrong"}}
		d := newDestination(t, "smtps://shop:secret@"+server.start(t), 1, func(d *Destination) { d.tls.RootCAs = trusted })
		if _, err := d.dial(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", offered, err)
		}
		if n := server.times("AUTH"); want == "" && n != 0 || want != "" && (n != 1 || !server.said(want)) {
			t.Errorf("%s: %d logins, want %q", offered, n, want)
		}
	}
}

// TestTheNameInEHLO is that of the settings, or the machine's if it has a dot, or its address.
func TestTheNameInEHLO(t *testing.T) {
	t.Parallel()
	byDefault := "[127.0.0.1]"
	if name, _ := os.Hostname(); strings.Contains(name, ".") {
		byDefault = name
	}
	for set, want := range map[string]string{"mail.shop.test": "mail.shop.test", "": byDefault} {
		server := &scriptedServer{}
		confirm(t, newPublisher(t, newDestination(t, "smtp://"+server.start(t), 1, func(d *Destination) { d.Helo = set })), 1)
		if !server.said("EHLO " + want) {
			t.Errorf("it does not say EHLO %s", want)
		}
	}
}

func TestWithoutCredentialsSTARTTLSIsUsedIfOffered(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	for offered, config := range map[bool]*tls.Config{true: secure, false: nil} {
		server := &scriptedServer{tls: config}
		d := newDestination(t, "smtp://"+server.start(t), 8, func(d *Destination) { d.tls.RootCAs = trusted })
		confirm(t, newPublisher(t, d), 1)
		if used := server.said("STARTTLS"); used != offered {
			t.Errorf("STARTTLS used: %t, offered: %t", used, offered)
		}
	}
}

// TestWithoutAServerThereAreGrowingPauses, and one line in the log for all.
func TestWithoutAServerThereAreGrowingPauses(t *testing.T) {
	t.Parallel()
	listener := mailertest.Listen(t)
	var attempts sync.WaitGroup
	times := 0
	attempts.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			times++
			_ = conn.Close()
		}
	})
	var log bytes.Buffer
	d := newDestination(t, "smtp://shop:secret@"+listener.Addr().String(), 8, func(d *Destination) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := d.KeepConnected(ctx, nil); err != nil {
		t.Error(err)
	}
	_ = listener.Close()
	attempts.Wait()
	if times < 2 || times > 7 {
		t.Errorf("%d attempts in 2 s", times)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, "secret") {
		t.Error(text)
	}
}

// TestASessionEndsWhenNoConnectionCanBeOpened, and another one begins when the server is back.
func TestASessionEndsWhenNoConnectionCanBeOpened(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]script{"421": {"greeting": "421 bye"}, "554": {"greeting": "554 no"}, "closed": {"greeting": hangUp}} {
		listener := mailertest.Listen(t)
		address := listener.Addr().String()
		m := &mailertest.Server{}
		stop := m.Serve(listener)
		d := newDestination(t, "smtp://"+address, 4)
		s, lost := connect(t, d)
		p, _ := s.NewPublisher(1)
		confirm(t, p, 3)
		stop()
		instead := &scriptedServer{script: away}
		end := instead.serveAt(t, address)
		for _, r := range send(t, p, spread(20, 3)...) {
			if r.Outcome != publish.NotSent {
				t.Errorf("%s: %s (%v)", name, names[r.Outcome], r.Err)
			}
		}
		<-lost.Done()
		end()
		again, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		stop = m.Serve(again)
		if r := sendOne(t, p); r.Outcome != publish.NotSent {
			t.Errorf("%s: on the publisher of before: %s (%v)", name, names[r.Outcome], r.Err)
		}
		confirm(t, newPublisher(t, d), 3)
		p.Close()
		stop()
		if got := len(m.Received()); got != 6 {
			t.Errorf("%d e-mails, want 6", got)
		}
	}
}

// TestWhatIsInFlightIsFinishedWhenTheContextEnds of KeepConnected, also over a new connection.
func TestWhatIsInFlightIsFinishedWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{".": delayed}, delay: 100 * time.Millisecond}
	d := newDestination(t, "smtp://"+server.start(t), 4)
	ctx, cancel := context.WithCancel(t.Context())
	err := d.KeepConnected(ctx, func(ended context.Context, s publish.Session) error {
		p, _ := s.NewPublisher(1)
		defer p.Close()
		results := make(chan publish.Result, 10)
		p.Publish(context.WithoutCancel(ctx), spread(10, 10), func(_ int, r publish.Result) { results <- r })
		cancel()
		<-ended.Done()
		for range 10 {
			if r := <-results; r.Outcome != publish.Confirmed {
				t.Errorf("%s (%v)", names[r.Outcome], r.Err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNothingIsBegunWhenTheContextOfPublishHasEnded: what is begun is finished.
func TestNothingIsBegunWhenTheContextOfPublishHasEnded(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{".": delayed}, delay: 200 * time.Millisecond}
	p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 2))
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan publish.Result, 10)
	p.Publish(ctx, spread(10, 10), func(_ int, r publish.Result) { results <- r })
	<-server.reached
	<-server.reached
	cancel()
	count := map[publish.Outcome]int{}
	for range 10 {
		count[(<-results).Outcome]++
	}
	if count[publish.Confirmed] != 2 || count[publish.NotSent] != 8 {
		t.Errorf("%d confirmed, %d not sent", count[publish.Confirmed], count[publish.NotSent])
	}
}

// TestCloseBreaksOffWhatIsBegun, at any step, and answers everything.
func TestCloseBreaksOffWhatIsBegun(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]publish.Outcome{
		"MAIL": publish.NotSent, "RCPT": publish.NotSent, "DATA": publish.NotSent, ".": publish.Unknown,
	} {
		for _, manner := range []string{silence, drip} {
			server := &scriptedServer{script: script{step: manner}}
			p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 1))
			results := make(chan publish.Result, 2)
			p.Publish(t.Context(), spread(2, 2), func(_ int, r publish.Result) { results <- r })
			<-server.reached
			p.Close()
			got := map[publish.Outcome]int{(<-results).Outcome: 1}
			got[(<-results).Outcome]++
			if got[want] == 0 || got[want]+got[publish.NotSent] < 2 {
				t.Errorf("%s %s: %v", step, manner, got)
			}
			if r := sendOne(t, p); r.Outcome != publish.NotSent {
				t.Errorf("after Close: %s (%v)", names[r.Outcome], r.Err)
			}
		}
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"smtp://" + servers.FreeAddress(t), "smtps://" + servers.FreeAddress(t), "smtp://nobody.invalid:25"} {
		if reachable(t, newDestination(t, url, 8), 500*time.Millisecond) {
			t.Errorf("%s is reachable", url)
		}
	}
}
