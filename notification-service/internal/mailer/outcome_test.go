package mailer

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/transactional-outbox/outbox/publish"
)

// TestWhatBecomesOfAnEmail of a server that says one thing at one step.
func TestWhatBecomesOfAnEmail(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script script
		want   publish.Outcome
	}{
		"all goes well":               {script{}, publish.Confirmed},
		"EHLO: later, but HELO":       {script{"EHLO": "502 what?", "HELO": "250 localhost"}, publish.Confirmed},
		"MAIL: later":                 {script{"MAIL": "451 later"}, publish.Refused},
		"MAIL: closing":               {script{"MAIL": "421 bye"}, publish.Refused},
		"MAIL: closed":                {script{"MAIL": hangUp}, publish.Refused},
		"RCPT: grey list":             {script{"RCPT": "451 grey list"}, publish.Refused},
		"RCPT: no such user":          {script{"RCPT": "550 5.1.1 no such user"}, publish.Invalid},
		"RCPT: relay denied":          {script{"RCPT": "554-5.7.1 relay\r\n554 5.7.1 denied"}, publish.Refused},
		"RCPT: closing":               {script{"RCPT": "421 bye"}, publish.Refused},
		"RCPT: closed":                {script{"RCPT": hangUp}, publish.Refused},
		"RCPT: nonsense":              {script{"RCPT": "what?"}, publish.Refused},
		"RCPT: another yes":           {script{"RCPT": "251 forwarded"}, publish.Confirmed},
		"DATA: closed":                {script{"DATA": hangUp}, publish.Refused},
		"DATA: an answer without end": {script{"DATA": flood}, publish.Refused},
		"the dot: later":              {script{".": "451 later"}, publish.Refused},
		"the dot: closing":            {script{".": "421 bye"}, publish.Refused},
		"the dot: another yes":        {script{".": "251 OK"}, publish.Confirmed},
		"the dot: nonsense":           {script{".": "what?"}, publish.Unknown},
		"the dot: what it is not":     {script{".": "354 go on"}, publish.Unknown},
		"the dot: closed":             {script{".": hangUp}, publish.Unknown},
		"RSET: closed":                {script{"RCPT": "550 5.1.1 no such user", "RSET": hangUp}, publish.Invalid},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &scriptedServer{script: test.script}
			r := sendOne(t, newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8)))
			if r.Outcome != test.want || errors.Is(r.Err, publish.ErrTimeout) != (r.Outcome == publish.Unknown) {
				t.Errorf("%s (%v), want %s", names[r.Outcome], r.Err, names[test.want])
			}
			if n := server.times("."); n > 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
}

// TestOnlyAnAddressThatDoesNotExistIsInvalid: RFC 5321, section 4.2, and RFC 3463.
func TestOnlyAnAddressThatDoesNotExistIsInvalid(t *testing.T) {
	t.Parallel()
	for replies, want := range map[string]publish.Outcome{
		"550 5.1.1 | 553 5.1.3 | 554 5.1.6 | 556 5.1.10":                                                              publish.Invalid,
		"550 | 556 | 550 5.1.0 | 550 5.1.2 | 550 5.1.7 | 553 5.1.8 | 550 5.2.1 | 552 5.2.2 | 550 5.1.1x | 550 5.1.11": publish.Refused,
		"421 | 450 4.1.1 | 450 4.1.2 | 451 | 452 4.2.2 | 454 4.7.0 | 450 5.1.1 | 554 5.7.1 | 530 | 535 | 599":         publish.Refused,
	} {
		for reply := range strings.SplitSeq(replies, " | ") {
			for _, step := range []string{stepMail, stepRcpt, "DATA", stepDot} {
				wanted := want
				if step != stepRcpt {
					wanted = publish.Refused
				}
				r, broken := outcome(step, replied(reply))
				if r.Outcome != wanted || errors.Is(r.Err, publish.ErrInvalid) != (wanted == publish.Invalid) {
					t.Errorf("%s: %q is %s (%v), want %s", step, reply, names[r.Outcome], r.Err, names[wanted])
				}
				if broken != strings.HasPrefix(reply, "421") {
					t.Errorf("%s: after %q the connection is broken: %t", step, reply, broken)
				}
			}
		}
	}
}

func replied(reply string) error {
	var code int
	_, _ = fmt.Sscan(reply, &code)
	_, text, _ := strings.Cut(reply, " ")
	return &textproto.Error{Code: code, Msg: text + " as you see"}
}

// TestEveryErrorIsUTF8AndOneLine: a trace with other bytes would be lost, with all of its batch.
func TestEveryErrorIsUTF8AndOneLine(t *testing.T) {
	t.Parallel()
	for _, script := range []script{
		{"RCPT": "550 5.1.1 unbekannter Empf\xe4nger"},
		{"RCPT": "450-\xff\r\n450 and more"},
		{".": "what\xff?"},
	} {
		server := &scriptedServer{script: script}
		r := sendOne(t, newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8)))
		if r.Err == nil || !utf8.ValidString(r.Err.Error()) || !IsSingleLine(strings.ReplaceAll(r.Err.Error(), "?", "")) {
			t.Errorf("error %q of %q", r.Err, script)
		}
	}
}

func TestTheAddressIsInNoError(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"550 5.1.1 <Ada@example.com> unknown", "451 <ada@example.com> later", "554 5.7.1 ADA@EXAMPLE.COM: denied",
		"550 5.1.1 Recipient ada@xn--grn-0ra.example, unknown",
	} {
		server := &scriptedServer{script: script{"RCPT": answer}}
		r := send(t, newPublisher(t, newDestination(t, "smtp://"+server.start(t), 8)), message("Ada@example.com"))[0]
		if r.Err == nil || strings.Contains(strings.ToLower(r.Err.Error()), "ada") {
			t.Error(r.Err)
		}
	}
}

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestAnErrorOrAPanicOfComposeIsRefused(t *testing.T) {
	t.Parallel()
	var none *nilError
	for name, compose := range map[string]func(publish.Message) (Email, error){
		"error": func(publish.Message) (Email, error) { return Email{}, errors.New("no template") },
		"panic": func(publish.Message) (Email, error) { panic("no template") },
		"nil":   func(publish.Message) (Email, error) { return Email{}, none },
	} {
		server := &scriptedServer{}
		d := newDestination(t, "smtp://"+server.start(t), 1, func(d *Destination) { d.Compose = compose })
		p := newPublisher(t, d)
		for range 3 { // the connection is not lost
			if r := sendOne(t, p); r.Outcome != publish.Refused || r.Err == nil {
				t.Errorf("%s: %s (%v)", name, names[r.Outcome], r.Err)
			}
		}
		if server.times("greeting") != 1 || server.times("MAIL") != 0 {
			t.Errorf("%s: %d connections, %d MAIL", name, server.times("greeting"), server.times("MAIL"))
		}
	}
}
