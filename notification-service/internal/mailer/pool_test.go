package mailer

import (
	"sync"
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
)

// send sends n e-mails one after the other.
func send(t *testing.T, mailer *SMTP, n int) {
	t.Helper()
	for range n {
		if err := mailer.Send(t.Context(), testEmail()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	server, mailer := startMail(t)
	send(t, mailer, 10)
	if n, got := server.Connections.Load(), len(server.Received()); n != 1 || got != 10 {
		t.Errorf("%d e-mails over %d connections, want 10 over one", got, n)
	}
	if server.Resets.Load() < 9 {
		t.Errorf("%d RSET between 10 e-mails", server.Resets.Load())
	}
}

func TestSTARTTLSAndTheLoginAreDoneOnce(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	server := &mailertest.Server{TLS: secure}
	mailer := newMailers(t, "smtp://shop:secret@"+server.Start(t), 2)
	mailer.tls.RootCAs = trusted
	send(t, mailer, 10)
	if n, got := server.Logins.Load(), len(server.Received()); n != 1 || got != 10 {
		t.Errorf("%d e-mails after %d logins, want 10 after one", got, n)
	}
}

func TestSixteenAtOnceShareTheConnections(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	server := &mailertest.Server{TLS: secure}
	mailer := newMailers(t, "smtp://shop:secret@"+server.Start(t), 4)
	mailer.tls.RootCAs = trusted
	var sending sync.WaitGroup
	for range 16 {
		sending.Go(func() {
			for range 10 {
				if err := mailer.Send(t.Context(), testEmail()); err != nil {
					t.Error(err)
				}
				if err := mailer.Probe(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	if got := len(server.Received()); got != 160 {
		t.Errorf("%d e-mails arrived, want 160", got)
	}
	// Each connection is used for 100 e-mails and probes.
	if n := server.Logins.Load(); n > 4+320/maxEmails {
		t.Errorf("%d logins", n)
	}
}

// TestARefusedEmailLeavesTheConnection: RSET ends its transaction.
func TestARefusedEmailLeavesTheConnection(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"RCPT", "DATA", "."} {
		server := &scriptedServer{script: script{step + " 1": "550 5.1.1 no such user"}}
		mailer := newMailer(t, "smtp://"+server.start(t))
		if err := mailer.Send(t.Context(), testEmail()); errorKind(err) != "recipient-refused" {
			t.Errorf("%s: error %v", step, err)
		}
		send(t, mailer, 1)
		if server.times("greeting") != 1 || server.times("RSET") < 1 {
			t.Errorf("%s: %d connections with %d RSET", step, server.times("greeting"), server.times("RSET"))
		}
	}
}

func TestAConnectionHasALifetime(t *testing.T) {
	t.Parallel()
	for name, shorten := range map[string]func(*limits){
		"in e-mails": func(l *limits) { l.emails = 1 },
		"in time":    func(l *limits) { l.age = time.Nanosecond },
	} {
		server := &scriptedServer{}
		mailer := newMailers(t, "smtp://"+server.start(t), 1)
		shorten(&mailer.limits)
		send(t, mailer, 3)
		mailer.Close()
		if opened, ended := server.times("greeting"), server.times("QUIT"); opened != 3 || ended != 3 {
			t.Errorf("%s: %d connections, %d QUIT, want 3", name, opened, ended)
		}
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for name, shorten := range map[string]func(*limits){
		"idle": func(l *limits) { l.idle = time.Millisecond },
		"old":  func(l *limits) { l.age = 200 * time.Millisecond },
	} {
		server := &scriptedServer{}
		mailer := newMailer(t, "smtp://"+server.start(t))
		shorten(&mailer.limits)
		send(t, mailer, 1)
		waitUntil(t, name, func() bool { return server.times("QUIT") == 1 })
		send(t, mailer, 1)
		if n := server.times("greeting"); n != 2 {
			t.Errorf("%s: %d connections, want 2", name, n)
		}
	}
}

// waitUntil waits until something is true.
func waitUntil(t *testing.T, name string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not happen", name)
		}
	}
}

func TestCloseSaysQUITWithinASecond(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"221 bye", silence, drip, hangUp} {
		server := &scriptedServer{script: script{"QUIT": answer, "MAIL": delayed}, delay: 100 * time.Millisecond}
		mailer := newMailers(t, "smtp://"+server.start(t), 3)
		var sending sync.WaitGroup
		for range 3 {
			sending.Go(func() { _ = mailer.Send(t.Context(), testEmail()) })
		}
		sending.Wait()
		begun := time.Now()
		mailer.Close()
		if took := time.Since(begun); took > 1500*time.Millisecond {
			t.Errorf("%s: closing took %s", answer, took)
		}
		if opened, ended := server.times("greeting"), server.times("QUIT"); opened != ended {
			t.Errorf("%s: %d connections, and %d QUIT", answer, opened, ended)
		}
	}
}

// TestAfterCloseNothingIsKept: an e-mail that was being sent still is.
func TestAfterCloseNothingIsKept(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{".": delayed}, delay: 100 * time.Millisecond}
	mailer := newMailer(t, "smtp://"+server.start(t))
	ended := make(chan error)
	go func() { ended <- mailer.Send(t.Context(), testEmail()) }()
	<-server.reached
	mailer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	waitUntil(t, "QUIT", func() bool { return server.times("QUIT") == 1 })
	if len(mailer.pool.idle) != 0 {
		t.Error("a connection is kept")
	}
}
