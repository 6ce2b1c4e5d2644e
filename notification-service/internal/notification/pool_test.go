package notification

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// send sends n e-mails one after the other.
func send(t *testing.T, mailer *SMTP, n int) {
	t.Helper()
	for range n {
		if err := mailer.Send(t.Context(), letterToAda()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	server, mailer := startMail(t)
	send(t, mailer, 10)
	if n, got := server.connections.Load(), len(server.letters()); n != 1 || got != 10 {
		t.Errorf("%d e-mails over %d connections, want 10 over one", got, n)
	}
	if server.resets.Load() < 9 {
		t.Errorf("%d RSET between 10 e-mails", server.resets.Load())
	}
}

func TestSTARTTLSAndTheLoginAreDoneOnce(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	server := &mailServer{tls: secure}
	mailer := newMailers(t, "smtp://shop:secret@"+server.start(t), 2)
	mailer.tls.RootCAs = trusted
	send(t, mailer, 10)
	if n, got := server.logins.Load(), len(server.letters()); n != 1 || got != 10 {
		t.Errorf("%d e-mails after %d logins, want 10 after one", got, n)
	}
}

func TestSixteenAtOnceShareTheConnections(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	server := &mailServer{tls: secure}
	mailer := newMailers(t, "smtp://shop:secret@"+server.start(t), 4)
	mailer.tls.RootCAs = trusted
	var sending sync.WaitGroup
	for range 16 {
		sending.Go(func() {
			for range 10 {
				if err := mailer.Send(t.Context(), letterToAda()); err != nil {
					t.Error(err)
				}
				if err := mailer.Probe(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	if got := len(server.letters()); got != 160 {
		t.Errorf("%d e-mails arrived, want 160", got)
	}
	// Each connection is used for 100 e-mails and probes.
	if n := server.logins.Load(); n > 4+320/maxEmails {
		t.Errorf("%d logins", n)
	}
}

// TestARefusedEmailLeavesTheConnection: RSET ends its transaction.
func TestARefusedEmailLeavesTheConnection(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"RCPT", "DATA", "."} {
		server := &scripted{script: script{step + " 1": "550 5.1.1 no such user"}}
		mailer := newMailer(t, "smtp://"+server.start(t))
		if err := mailer.Send(t.Context(), letterToAda()); kind(err) != "recipient-refused" {
			t.Errorf("%s: error %v", step, err)
		}
		send(t, mailer, 1)
		if server.times("greeting") != 1 || server.times("RSET") < 1 {
			t.Errorf("%s: %d connections with %d RSET", step, server.times("greeting"), server.times("RSET"))
		}
	}
}

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
				server := &scripted{script: script{step: answer}}
				mailer := newMailer(t, "smtp://"+server.start(t))
				send(t, mailer, 2)
				if n, taken := server.times("greeting"), server.times("."); n != 2 || taken != 2 {
					t.Errorf("%d e-mails over %d connections, want 2 over 2", taken, n)
				}
			})
		}
	}
}

// TestAKeptConnectionWithoutAnAnswerIsReplaced: its server vanished without a word.
func TestAKeptConnectionWithoutAnAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	server := &scripted{script: script{"RSET 1": silence}}
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
		server := &scripted{script: script}
		mailer := newMailer(t, "smtp://"+server.start(t))
		if err := mailer.Send(t.Context(), letterToAda()); kind(err) != "without mail" {
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
	server := &scripted{script: script{"RCPT 2": "451 later"}}
	mailer := newMailer(t, "smtp://"+server.start(t))
	send(t, mailer, 1)
	if err := mailer.Send(t.Context(), letterToAda()); kind(err) != "unclear, deferred" {
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
			server := &scripted{script: script{nth: answer}}
			mailer := newMailer(t, "smtp://"+server.start(t))
			var failed int
			for range 2 {
				if err := mailer.Send(t.Context(), letterToAda()); err != nil {
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
	listener := listen(t)
	m := &mailServer{}
	stop := m.serve(t, listener)
	mailer := newMailer(t, "smtp://"+listener.Addr().String())
	send(t, mailer, 3)
	stop()
	if err := mailer.Send(t.Context(), letterToAda()); kind(err) != "without mail" {
		t.Errorf("error %v while it is away", err)
	}
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer m.serve(t, again)()
	send(t, mailer, 3)
	if n, got := m.connections.Load(), len(m.letters()); n != 2 || got != 6 {
		t.Errorf("%d e-mails over %d connections, want 6 over 2", got, n)
	}
}

// TestAServerThatRestartsBetweenEmailsCostsNone: the kept connection is dead.
func TestAServerThatRestartsBetweenEmailsCostsNone(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	m := &mailServer{}
	stop := m.serve(t, listener)
	mailer := newMailer(t, "smtp://"+listener.Addr().String())
	send(t, mailer, 1)
	stop()
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer m.serve(t, again)()
	send(t, mailer, 1)
	if got := len(m.letters()); got != 2 {
		t.Errorf("%d e-mails, want 2", got)
	}
}

func TestAConnectionHasALifetime(t *testing.T) {
	t.Parallel()
	for name, shorten := range map[string]func(*limits){
		"in e-mails": func(l *limits) { l.emails = 1 },
		"in time":    func(l *limits) { l.age = time.Nanosecond },
	} {
		server := &scripted{}
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
		server := &scripted{}
		mailer := newMailer(t, "smtp://"+server.start(t))
		shorten(&mailer.limits)
		send(t, mailer, 1)
		within(t, name, func() bool { return server.times("QUIT") == 1 })
		send(t, mailer, 1)
		if n := server.times("greeting"); n != 2 {
			t.Errorf("%s: %d connections, want 2", name, n)
		}
	}
}

// within waits until something is true.
func within(t *testing.T, name string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not happen", name)
		}
	}
}

func TestCloseSaysQUITWithinASecond(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"221 bye", silence, drip, hangUp} {
		server := &scripted{script: script{"QUIT": answer, "MAIL": late}, delay: 100 * time.Millisecond}
		mailer := newMailers(t, "smtp://"+server.start(t), 3)
		var sending sync.WaitGroup
		for range 3 {
			sending.Go(func() { _ = mailer.Send(t.Context(), letterToAda()) })
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
	server := &scripted{script: script{".": late}, delay: 100 * time.Millisecond}
	mailer := newMailer(t, "smtp://"+server.start(t))
	ended := make(chan error)
	go func() { ended <- mailer.Send(t.Context(), letterToAda()) }()
	<-server.reached
	mailer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	within(t, "QUIT", func() bool { return server.times("QUIT") == 1 })
	if len(mailer.pool.idle) != 0 {
		t.Error("a connection is kept")
	}
}

func TestTheAddressIsInNoError(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"550 5.1.1 <ada@example.com> unknown", "451 <ada@example.com> later", "554 5.7.1 <ada@example.com> denied"} {
		server := &scripted{script: script{"RCPT": answer}}
		err := newMailer(t, "smtp://"+server.start(t)).Send(t.Context(), letterToAda())
		if strings.Contains(err.Error(), "ada@") {
			t.Errorf("error %v", err)
		}
		if unclear, ok := err.(interface{ Otherwise() error }); ok && strings.Contains(unclear.Otherwise().Error(), "ada@") {
			t.Errorf("otherwise %v", unclear.Otherwise())
		}
	}
}

// BenchmarkSMTP sends over 8 kept connections to a server on this machine.
func BenchmarkSMTP(b *testing.B) {
	secure, trusted := certificate()
	for name, server := range map[string]*mailServer{"plain": {}, "STARTTLS and login": {tls: secure}} {
		b.Run(name, func(b *testing.B) {
			login := map[bool]string{true: "shop:secret@"}[server.tls != nil]
			mailer := newMailer(b, "smtp://"+login+server.start(b))
			mailer.tls.RootCAs = trusted
			b.SetParallelism(8)
			b.RunParallel(func(next *testing.PB) {
				for next.Next() {
					if err := mailer.Send(b.Context(), letterToAda()); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "e-mails/s")
		})
	}
}

var _ smtp.AuthSession = (*mailSession)(nil)
