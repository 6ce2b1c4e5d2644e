package mailer

import (
	"net"
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
	"example.com/transactional-outbox/outbox/publish"
)

// TestAKeptConnectionIsReplaced: the server gives it up with the second e-mail, and cannot have
// that e-mail.
func TestAKeptConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	for step, answers := range map[string][]string{
		"MAIL 2": {"421 bye", hangUp, "500 what?", "421 4.4.2 idle for too long", "450 4.7.1 too many e-mails over one connection", "503 EHLO first"},
		"RCPT 2": {"421 bye", hangUp, "what?"},
		"DATA 2": {"421 bye", hangUp},
	} {
		for _, answer := range answers {
			t.Run(step+" "+answer, func(t *testing.T) {
				t.Parallel()
				server := &scriptedServer{script: script{step: answer}}
				confirm(t, newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8)), 2)
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
	server := &scriptedServer{script: script{"MAIL 2": silence}}
	d := newDestination(t, "smtp://"+server.start(t), 8, func(d *Destination) { d.limits.check = 50 * time.Millisecond })
	confirm(t, newPublisher(t, d), 2)
	if n := server.times("greeting"); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// TestTheServerHangsUpOnOneMessage: it is Refused after at most one more connection, and the others
// go on.
func TestTheServerHangsUpOnOneMessage(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"MAIL", "RCPT", "DATA"} {
		server := &scriptedServer{script: script{step + " 2": hangUp, step + " 3": hangUp}}
		p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8))
		confirm(t, p, 1)
		if r := sendOne(t, p); r.Outcome != publish.Refused {
			t.Errorf("%s: %s (%v)", step, names[r.Outcome], r.Err)
		}
		confirm(t, p, 3)
		if n := server.times("greeting"); n != 3 {
			t.Errorf("%s: %d connections, want 3", step, n)
		}
	}
}

// TestAReplyThatConcernsTheEmailIsNotAskedForTwice, also over a kept connection, and whatever follows.
func TestAReplyThatConcernsTheEmailIsNotAskedForTwice(t *testing.T) {
	t.Parallel()
	for _, reset := range []string{"250 OK", "421 bye", "500 what?", hangUp, silence} {
		server := &scriptedServer{script: script{"RCPT 2": "451 later", "RSET": reset}}
		p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8))
		confirm(t, p, 1)
		if r := sendOne(t, p); r.Outcome != publish.Refused || server.times("RCPT") != 2 {
			t.Errorf("%s: %s (%v), %d RCPT", reset, names[r.Outcome], r.Err, server.times("RCPT"))
		}
		confirm(t, p, 1)
	}
}

// TestAReplyTooManyIsNotThatToTheNextEmail.
func TestAReplyTooManyIsNotThatToTheNextEmail(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{". 1": "250 OK\r\n250 OK\r\n550 5.1.1 no such user"}}
	confirm(t, newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8)), 2)
	if n := server.times("greeting"); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// TestNothingIsRepeatedAfterTheDot, and one lost answer costs one connection.
func TestNothingIsRepeatedAfterTheDot(t *testing.T) {
	t.Parallel()
	for _, nth := range []string{". 1", ". 2"} {
		for _, answer := range []string{hangUp, "421 bye", "what?", "451 4.3.0 later"} {
			server := &scriptedServer{script: script{nth: answer}}
			p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8))
			var failed int
			for range 3 {
				if sendOne(t, p).Outcome != publish.Confirmed {
					failed++
				}
			}
			if dots, n := server.times("."), server.times("greeting"); failed != 1 || dots != 3 || n > 2 {
				t.Errorf("%s %s: %d of 3 failed, %d dots were sent, over %d connections", nth, answer, failed, dots, n)
			}
		}
	}
}

// TestAServerThatRestartsBetweenEmailsCostsNone: all kept connections are dead.
func TestAServerThatRestartsBetweenEmailsCostsNone(t *testing.T) {
	t.Parallel()
	listener := mailertest.Listen(t)
	m := &mailertest.Server{OnDot: func(string) error { time.Sleep(10 * time.Millisecond); return nil }}
	stop := m.Serve(listener)
	d := newDestination(t, "smtp://"+listener.Addr().String(), 8)
	s, lost := connect(t, d)
	p, _ := s.NewPublisher(1)
	defer p.Close()
	send(t, p, spread(30, 10)...)
	stop()
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Serve(again)()
	confirm(t, p, 1)
	if got := len(m.Received()); got != 31 || lost.Err() != nil {
		t.Errorf("%d e-mails, want 31; lost: %v", got, lost.Err())
	}
}
