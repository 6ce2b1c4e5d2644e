package mailer

import (
	"errors"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// TestTheTimeoutsAreTheRFCs: those of the greeting and of an e-mail, RFC 5321, section 4.5.3.2.
func TestTheTimeoutsAreTheRFCs(t *testing.T) {
	t.Parallel()
	want := limits{
		dial: 30 * time.Second, greeting: 5 * time.Minute, beforeDot: 5 * time.Minute, dot: 10 * time.Minute,
		check: 30 * time.Second, quit: time.Second,
		idle: 30 * time.Second, age: 5 * time.Minute, emails: 100, busy: time.Second, fewer: 10 * time.Second, retry: 500 * time.Millisecond,
	}
	if got := newDestination(t, "smtp://localhost", 1).limits; got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
}

// TestEachStepHasItsTimeout, also if the server drips. Only that step's is short.
func TestEachStepHasItsTimeout(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	beforeDot := func(l *limits) { l.beforeDot, l.check = short, short }
	for step, shorten := range map[string]func(*limits){
		"MAIL": beforeDot, "RCPT": beforeDot, "DATA": beforeDot, ".": func(l *limits) { l.dot = short },
	} {
		for _, manner := range []string{silence, drip} {
			t.Run(step+" "+manner, func(t *testing.T) {
				t.Parallel()
				server := &scriptedServer{script: script{step + " 1": manner, step + " 2": manner}} // it was a kept one
				d := newDestination(t, "smtp://"+server.start(t), 1, func(d *Destination) { shorten(&d.limits) })
				want, p := publish.Refused, newPublisher(t, d)
				if step == "." {
					want = publish.Unknown
				}
				if r := sendOne(t, p); r.Outcome != want {
					t.Errorf("%s (%v), want %s", names[r.Outcome], r.Err, names[want])
				}
			})
		}
	}
}

// TestTheTextHasItsTimeout: the server reads none of a text that is longer than all buffers on the
// way.
func TestTheTextHasItsTimeout(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{"DATA": stopReading}}
	d := newDestination(t, "smtp://"+server.start(t), 1, func(d *Destination) { d.limits.beforeDot = 50 * time.Millisecond })
	c, err := d.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	last, err := c.transaction(t.Context(), envelope{from: "shop@example.com", to: "ada@example.com", text: make([]byte, 16<<20)})
	if r, broken := outcome(last, err); r.Outcome != publish.Refused || !broken || last != "the text" {
		t.Errorf("%s after %s (%v)", names[r.Outcome], last, err)
	}
	close(server.resume)
}

// TestALateAnswerAtTheDotIsAwaited: 25 s, scaled to 2.5 s. No other step may take as long.
func TestALateAnswerAtTheDotIsAwaited(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{".": delayed}, delay: 2500 * time.Millisecond}
	d := newDestination(t, "smtp://"+server.start(t), 1, func(d *Destination) {
		for _, limit := range []*time.Duration{&d.limits.dial, &d.limits.greeting, &d.limits.beforeDot, &d.limits.check, &d.limits.quit, &d.limits.busy} {
			*limit = 2 * time.Second
		}
	})
	confirm(t, newPublisher(t, d), 1)
	if n := server.times("."); n != 1 {
		t.Errorf("the e-mail was sent %d times", n)
	}
}

// TestTheGreetingHasATimeout, and it does not keep a session from its end.
func TestTheGreetingHasATimeout(t *testing.T) {
	t.Parallel()
	for _, manner := range []string{silence, drip} {
		server := &scriptedServer{script: script{"greeting": manner}}
		d := newDestination(t, "smtp://"+server.start(t), 1, func(d *Destination) { d.limits.greeting = 50 * time.Millisecond })
		_, err := d.dial(t.Context())
		if err == nil || errors.Is(err, publish.ErrInvalid) {
			t.Errorf("%s: error %v", manner, err)
		}
	}
}
