package mailer

import (
	"context"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// TestARefusedEmailLeavesTheConnection: RSET ends its transaction.
func TestARefusedEmailLeavesTheConnection(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"RCPT", "DATA", "."} {
		server := &scriptedServer{script: script{step + " 1": "550 5.7.1 no"}}
		p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8))
		if r := sendOne(t, p); r.Outcome != publish.Refused {
			t.Errorf("%s: %s (%v)", step, names[r.Outcome], r.Err)
		}
		confirm(t, p, 1)
		if server.times("greeting") != 1 || server.times("RSET") < 1 {
			t.Errorf("%s: %d connections with %d RSET", step, server.times("greeting"), server.times("RSET"))
		}
	}
}

func TestAConnectionHasALifetime(t *testing.T) {
	t.Parallel()
	for name, shorten := range map[string]func(*Destination){
		"in e-mails": func(d *Destination) { d.limits.emails = 1 },
		"in time":    func(d *Destination) { d.limits.age = 300 * time.Millisecond },
	} {
		server := &scriptedServer{}
		p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 1, shorten))
		for i := range 3 {
			confirm(t, p, 1)
			waitUntil(t, name, func() bool { return server.times("QUIT") > i })
		}
		if opened := server.times("greeting"); opened < 3 || opened > 4 {
			t.Errorf("%s: %d connections, %d QUIT, want 3", name, opened, server.times("QUIT"))
		}
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for name, shorten := range map[string]func(*Destination){
		"idle": func(d *Destination) { d.limits.idle = 20 * time.Millisecond },
		"old":  func(d *Destination) { d.limits.age = 200 * time.Millisecond },
	} {
		server := &scriptedServer{}
		p := newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8, shorten))
		waitUntil(t, name, func() bool { return server.times("QUIT") == 1 })
		confirm(t, p, 1)
		if n := server.times("greeting"); n != 2 {
			t.Errorf("%s: %d connections, want 2", name, n)
		}
	}
}

func TestTheLastSessionSaysQUIT(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"221 bye", silence, drip, hangUp} {
		server := &scriptedServer{script: script{"QUIT": answer, "MAIL": delayed}, delay: 100 * time.Millisecond}
		d := newDestination(t, "smtp://"+server.start(t), 6)
		ctx, cancel := context.WithCancel(t.Context())
		err := d.KeepConnected(ctx, func(_ context.Context, s publish.Session) error {
			p, _ := s.NewPublisher(3)
			send(t, p, spread(3, 3)...)
			p.Close()
			cancel()
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", answer, err)
		}
		if opened, ended := server.times("greeting"), server.times("QUIT"); opened != ended || opened < 3 {
			t.Errorf("%s: %d connections, and %d QUIT", answer, opened, ended)
		}
	}
}
