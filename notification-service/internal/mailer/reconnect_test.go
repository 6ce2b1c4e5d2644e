package mailer

import (
	"context"
	"net"
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
)

// TestAKeptConnectionIsReplacedOnce: the server gives it up with the second e-mail, and
// cannot have that e-mail.
func TestAKeptConnectionIsReplacedOnce(t *testing.T) {
	t.Parallel()
	for step, answers := range map[string][]string{
		"RSET 1": {"421 bye", hangUp, "500 what?", "421 4.4.2 idle for too long"},
		"MAIL 2": {"421 bye", hangUp, "450 4.7.1 too many e-mails over one connection", "503 EHLO first"},
		"RCPT 2": {"421 bye", hangUp, "what?"},
		"DATA 2": {"421 bye", hangUp},
	} {
		for _, answer := range answers {
			t.Run(step+" "+answer, func(t *testing.T) {
				t.Parallel()
				server := &scriptedServer{script: script{step: answer}}
				mailer := newMailer(t, "smtp://"+server.start(t))
				send(t, mailer, 2)
				if n, taken := server.times("greeting"), server.times("."); n != 2 || taken != 2 {
					t.Errorf("%d e-mails over %d connections, want 2 over 2", taken, n)
				}
			})
		}
	}
}

// TestAKeptConnectionWithoutAnAnswerIsReplaced: its server does not answer.
func TestAKeptConnectionWithoutAnAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{"RSET 1": silence}}
	mailer := newMailer(t, "smtp://"+server.start(t))
	mailer.limits.reset = 50 * time.Millisecond
	send(t, mailer, 2)
	if n := server.times("greeting"); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestAFreshConnectionIsNotReplaced(t *testing.T) {
	t.Parallel()
	for _, script := range []script{{"MAIL": "421 bye"}, {"RCPT": hangUp}, {"greeting": "421 busy"}} {
		server := &scriptedServer{script: script}
		mailer := newMailer(t, "smtp://"+server.start(t))
		if err := mailer.Send(t.Context(), testEmail()); errorKind(err) != "without mail" {
			t.Errorf("error %v", err)
		}
		if n := server.times("greeting"); n != 1 {
			t.Errorf("%v: %d connections, want one", script, n)
		}
	}
}

// TestAReplyThatConcernsTheEmailIsNotAskedForTwice, also over a kept connection.
func TestAReplyThatConcernsTheEmailIsNotAskedForTwice(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{"RCPT 2": "451 later"}}
	mailer := newMailer(t, "smtp://"+server.start(t))
	send(t, mailer, 1)
	if err := mailer.Send(t.Context(), testEmail()); errorKind(err) != "unclear, deferred" {
		t.Errorf("error %v", err)
	}
	if n := server.times("RCPT"); n != 2 {
		t.Errorf("%d RCPT, want 2", n)
	}
}

// TestNothingIsRepeatedAfterTheDot: over a fresh connection and over a kept one.
func TestNothingIsRepeatedAfterTheDot(t *testing.T) {
	t.Parallel()
	for _, nth := range []string{". 1", ". 2"} {
		for _, answer := range []string{hangUp, "421 bye", "what?", "451 4.3.0 later"} {
			server := &scriptedServer{script: script{nth: answer}}
			mailer := newMailer(t, "smtp://"+server.start(t))
			var failed int
			for range 2 {
				if err := mailer.Send(t.Context(), testEmail()); err != nil {
					failed++
				}
			}
			if dots := server.times("."); failed != 1 || dots != 2 {
				t.Errorf("%s %s: %d of 2 failed, and %d dots were sent", nth, answer, failed, dots)
			}
		}
	}
}

func TestARestartedServerIsFoundAgain(t *testing.T) {
	t.Parallel()
	listener := mailertest.Listen(t)
	m := &mailertest.Server{}
	stop := m.Serve(listener)
	mailer := newMailer(t, "smtp://"+listener.Addr().String())
	send(t, mailer, 3)
	stop()
	if err := mailer.Send(t.Context(), testEmail()); errorKind(err) != "without mail" {
		t.Errorf("error %v while it is away", err)
	}
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Serve(again)()
	send(t, mailer, 3)
	if n, got := m.Connections.Load(), len(m.Received()); n != 2 || got != 6 {
		t.Errorf("%d e-mails over %d connections, want 6 over 2", got, n)
	}
}

// TestAServerThatRestartsBetweenEmailsCostsNone: the kept connection is dead.
func TestAServerThatRestartsBetweenEmailsCostsNone(t *testing.T) {
	t.Parallel()
	listener := mailertest.Listen(t)
	m := &mailertest.Server{}
	stop := m.Serve(listener)
	mailer := newMailer(t, "smtp://"+listener.Addr().String())
	send(t, mailer, 1)
	stop()
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Serve(again)()
	send(t, mailer, 1)
	if got := len(m.Received()); got != 2 {
		t.Errorf("%d e-mails, want 2", got)
	}
}

// TestTheEndOfTheContextEndsAKeptConnection, at any step, and no other replaces it.
func TestTheEndOfTheContextEndsAKeptConnection(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"RSET 1", "MAIL 2", "RCPT 2", "DATA 2", ". 2"} {
		server := &scriptedServer{script: script{step: silence}}
		mailer := newMailer(t, "smtp://"+server.start(t))
		send(t, mailer, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mailer.Send(ctx, testEmail()) }()
		<-server.reached
		cancel()
		wantError(t, ended, context.Canceled)
		if n := server.times("greeting"); n != 1 {
			t.Errorf("%s: %d connections, want one", step, n)
		}
		send(t, mailer, 1)
	}
}
