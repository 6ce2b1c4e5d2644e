package mailer

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/smtptest"
)

// TestP6WhatBecomesOfAnEmail sends e-mails one after the other to a server that follows a script. Each
// one goes over a kept connection first. If that breaks before the dot, the e-mail is sent once more
// over a fresh one: "twice" lets both fail. No e-mail is sent again after its dot, and each error is
// one line of UTF-8 without the address.
func TestP6WhatBecomesOfAnEmail(t *testing.T) {
	t.Parallel()
	type script = smtptest.Script
	const hangUp, silence, noSuchUser = smtptest.HangUp, smtptest.Silence, "550 5.1.1 no such user"
	twice := func(step, reply string) script { return script{step + " 1": reply, step + " 2": reply} }
	for name, test := range map[string]struct {
		script      script
		want        string // the outcome of each e-mail
		connections int    // how many were opened
	}{
		"all goes well":                  {script{}, "Confirmed Confirmed", 1},
		"EHLO: later, but HELO":          {script{"EHLO": "502 what?", "HELO": "250 localhost"}, "Confirmed", 1},
		"MAIL: later":                    {twice("MAIL", "451 later"), "Refused Confirmed", 2},
		"MAIL: closing":                  {twice("MAIL", "421 bye"), "Refused Confirmed", 3},
		"MAIL: closed":                   {twice("MAIL", hangUp), "Confirmed", 3},
		"MAIL: always closed":            {script{"MAIL": hangUp}, "Refused", 3},
		"RCPT: grey list":                {script{"RCPT 1": "451 grey list"}, "Refused Confirmed", 1},
		"RCPT: no such user":             {script{"RCPT 1": noSuchUser}, "Invalid Confirmed", 1},
		"RCPT: no such user, by address": {script{"RCPT 1": "550 5.1.1 <ADA@example.com> unbekannter Empf\xe4nger ada@xn--grn-0ra.example"}, "Invalid", 1},
		"RCPT: relay denied":             {script{"RCPT 1": "554-5.7.1 \xff\r\n554 5.7.1 denied"}, "Refused Confirmed", 1},
		"RCPT: closed":                   {twice("RCPT", hangUp), "Refused Confirmed", 3},
		"RCPT: nonsense":                 {twice("RCPT", "what?"), "Refused Confirmed", 3},
		"DATA: refused":                  {script{"DATA 1": "550 5.7.1 no"}, "Refused Confirmed", 1},
		"DATA: closed":                   {twice("DATA", hangUp), "Refused Confirmed", 3},
		"DATA: a reply without end":      {twice("DATA", smtptest.Flood), "Refused Confirmed", 3},
		"the dot: later":                 {script{". 1": "451 later"}, "Refused Confirmed", 1},
		"the dot: closing":               {script{". 1": "421 bye"}, "Refused Confirmed", 2},
		"the dot: another yes":           {script{".": "251 OK"}, "Confirmed Confirmed", 1},
		"the dot: nonsense":              {script{". 1": "what\xff?"}, "Unknown Confirmed", 2},
		"the dot: what it is not":        {script{". 1": "354 go on"}, "Unknown Confirmed", 2},
		"the dot: closed":                {script{". 1": hangUp}, "Unknown Confirmed", 2},
		"RSET: closed":                   {script{"RCPT 1": noSuchUser, "RSET": hangUp}, "Invalid Confirmed", 2},
		"RSET: closing, kept":            {script{"RCPT 2": "451 later", "RSET": "421 bye"}, "Confirmed Refused Confirmed", 2},
		"RSET: silence, kept":            {script{"RCPT 2": "451 later", "RSET": silence}, "Confirmed Refused Confirmed", 2},
		"MAIL, kept: closing":            {script{"MAIL 2": "421 bye"}, "Confirmed Confirmed", 2},
		"MAIL, kept: closed":             {script{"MAIL 2": hangUp}, "Confirmed Confirmed", 2},
		"MAIL, kept: too many e-mails":   {script{"MAIL 2": "450 4.7.1 too many e-mails over one connection"}, "Confirmed Confirmed", 2},
		"RCPT, kept: closed":             {script{"RCPT 2": hangUp}, "Confirmed Confirmed", 2},
		"the dot, kept: closed":          {script{". 2": hangUp}, "Confirmed Unknown Confirmed", 2},
		"the dot, kept: later":           {script{". 2": "451 4.3.0 later"}, "Confirmed Refused Confirmed", 1},
		"the dot: a reply too many":      {script{". 1": "250 OK\r\n250 OK\r\n" + noSuchUser}, "Confirmed Confirmed", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &smtptest.Server{Script: test.script}
			p, want := newPublisher(t, start(t, server, 8)), strings.Fields(test.want)
			for i := range want {
				r := sendOne(p)
				if names[r.Outcome] != want[i] || errors.Is(r.Err, publish.ErrTimeout) != (r.Outcome == publish.Unknown) {
					t.Errorf("e-mail %d: %s (%v), want %s", i, names[r.Outcome], r.Err, want[i])
				}
				if text := fmt.Sprint(r.Err); !utf8.ValidString(text) || !IsSingleLine(text) || strings.Contains(strings.ToLower(text), "ada") {
					t.Errorf("e-mail %d: the error is %q", i, text)
				}
			}
			if n := server.Times("greeting"); n != test.connections {
				t.Errorf("%d connections, want %d", n, test.connections)
			}
			if n := server.Times("."); n > len(want) {
				t.Errorf("%d dots for %d e-mails", n, len(want))
			}
		})
	}
}

// TestEachStepHasItsTimeout, also if the server drips. Only that step's is short. Over a kept connection
// the server is asked again over another one.
func TestEachStepHasItsTimeout(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	beforeDot := func(l *limits) { l.beforeDot, l.check = short, short }
	dot := func(l *limits) { l.dot = short }
	for step, test := range map[string]struct {
		shorten func(*limits)
		want    publish.Outcome
	}{
		"MAIL": {beforeDot, publish.Refused},
		"RCPT": {beforeDot, publish.Refused},
		"DATA": {beforeDot, publish.Refused},
		".":    {dot, publish.Unknown},
	} {
		for _, manner := range []string{smtptest.Silence, smtptest.Drip} {
			t.Run(step+" "+manner, func(t *testing.T) {
				t.Parallel()
				d := start(t, &smtptest.Server{Script: smtptest.Script{step: manner}}, 8)
				test.shorten(&d.limits)
				r := sendOne(newPublisher(t, d))
				ofDot := strings.Contains(fmt.Sprint(r.Err), stepDot+": ") // and not the time-out of publish.All
				if r.Outcome != test.want || ofDot != (step == ".") {
					t.Errorf("%s (%v), want %s", names[r.Outcome], r.Err, names[test.want])
				}
			})
		}
	}
	server := &smtptest.Server{Script: smtptest.Script{"MAIL 1": smtptest.Silence}}
	d := start(t, server, 8)
	d.limits.check = short
	confirm(t, newPublisher(t, d), message("ada@example.com"))
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
			var code int
			_, _ = fmt.Sscan(reply, &code)
			_, text, _ := strings.Cut(reply, " ")
			for _, step := range []string{stepMail, stepRcpt, "DATA", stepDot} {
				wanted := want
				if step != stepRcpt {
					wanted = publish.Refused
				}
				r, broken := outcome(step, &textproto.Error{Code: code, Msg: text + " as you see"})
				if r.Outcome != wanted || errors.Is(r.Err, publish.ErrInvalid) != (wanted == publish.Invalid) || broken != (code == 421) {
					t.Errorf("%s: %q is %s (%v), want %s; the connection is broken: %t", step, reply, names[r.Outcome], r.Err, names[wanted], broken)
				}
			}
		}
	}
}

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
