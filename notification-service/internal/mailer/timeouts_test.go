package mailer

import (
	"os"
	"testing"
	"time"
)

// TestTheTimeoutsAreTheRFCs: RFC 5321, section 4.5.3.2, as minimums.
func TestTheTimeoutsAreTheRFCs(t *testing.T) {
	t.Parallel()
	want := limits{
		dial: 30 * time.Second, greeting: 5 * time.Minute, mail: 5 * time.Minute, rcpt: 5 * time.Minute,
		data: 2 * time.Minute, block: 3 * time.Minute, dot: 10 * time.Minute,
		beforeDot: 5 * time.Minute, reset: 10 * time.Second, quit: time.Second,
		idle: 30 * time.Second, age: 5 * time.Minute, emails: 100,
	}
	if got := newMailer(t, "smtp://localhost").limits; got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
}

// TestEachStepHasItsTimeout, also if the server drips. Only that step's is short.
func TestEachStepHasItsTimeout(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	for step, shorten := range map[string]func(*limits){
		"greeting": func(l *limits) { l.greeting = short },
		"EHLO":     func(l *limits) { l.greeting = short },
		"MAIL":     func(l *limits) { l.mail = short },
		"RCPT":     func(l *limits) { l.rcpt = short },
		"DATA":     func(l *limits) { l.data = short },
		".":        func(l *limits) { l.dot = short },
	} {
		for _, manner := range []string{silence, drip} {
			t.Run(step+" "+manner, func(t *testing.T) {
				t.Parallel()
				server := &scriptedServer{script: script{step: manner}}
				mailer := newMailer(t, "smtp://"+server.start(t))
				shorten(&mailer.limits)
				ended := make(chan error, 1)
				go func() { ended <- mailer.Send(t.Context(), testEmail()) }()
				wantError(t, ended, os.ErrDeadlineExceeded)
			})
		}
	}
}

// TestABlockOfTextHasItsTimeout: the server reads none of a text that is longer than all
// buffers on the way.
func TestABlockOfTextHasItsTimeout(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{"DATA": stopReading}}
	mailer := newMailer(t, "smtp://"+server.start(t))
	mailer.limits.block = 50 * time.Millisecond
	long := envelope{from: "<shop@example.com>", to: "<ada@example.com>", text: make([]byte, 16<<20)}
	ended := make(chan error, 1)
	go func() {
		ended <- classify(mailer.runSteps(t.Context(), func(c *connection) []step { return c.sendSteps(long) }))
	}()
	wantError(t, ended, os.ErrDeadlineExceeded)
	close(server.resume)
}

// TestAllBeforeTheDotHasOneDeadline, and a probe has the same.
func TestAllBeforeTheDotHasOneDeadline(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"greeting", "MAIL"} {
		server := &scriptedServer{script: script{step: drip}}
		mailer := newMailer(t, "smtp://"+server.start(t))
		mailer.sender.Store(new("<shop@example.com>"))
		mailer.limits.beforeDot = 50 * time.Millisecond
		ended := make(chan error, 1)
		go func() { ended <- mailer.Send(t.Context(), testEmail()) }()
		wantError(t, ended, os.ErrDeadlineExceeded)
		go func() { ended <- mailer.Probe(t.Context()) }()
		wantError(t, ended, os.ErrDeadlineExceeded)
	}
}

// TestALateAnswerAtTheDotIsAwaited: 25 s, scaled to 2.5 s. No other step may take as long.
func TestALateAnswerAtTheDotIsAwaited(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{".": delayed}, delay: 2500 * time.Millisecond}
	mailer := newMailer(t, "smtp://"+server.start(t))
	l := &mailer.limits
	for _, limit := range []*time.Duration{&l.dial, &l.greeting, &l.mail, &l.rcpt, &l.data, &l.block, &l.beforeDot, &l.reset, &l.quit} {
		*limit = 2 * time.Second
	}
	if err := mailer.Send(t.Context(), testEmail()); err != nil {
		t.Error(err)
	}
	if n := server.times("."); n != 1 {
		t.Errorf("the e-mail was sent %d times", n)
	}
}
