package mailer

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/transactional-outbox/test/servers"
)

// errorKind is what the consumer sees of an error.
func errorKind(err error) string {
	var (
		never    interface{ DeadLetterCode() string }
		unclear  interface{ MessageError() error }
		away     interface{ Dependency() string }
		deferred interface{ Deferred() }
	)
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &never):
		return never.DeadLetterCode()
	case errors.As(err, &unclear):
		return "unclear, " + errorKind(unclear.MessageError())
	case errors.As(err, &away):
		return "without " + away.Dependency()
	case errors.As(err, &deferred):
		return "deferred"
	default:
		return "transient"
	}
}

// TestSMTPTellsWhoseFaultItIs: of a server that says one thing at one step.
func TestSMTPTellsWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	const (
		away, refused = "without mail", "recipient-refused"
		busy          = "unclear, deferred"
		later         = "unclear, deferred"
		no            = "unclear, recipient-refused"
	)
	tests := map[string]struct {
		script script
		want   string
	}{
		"all goes well":               {script{}, "none"},
		"greeting: busy":              {script{"greeting": "421 too busy"}, away},
		"greeting: no service":        {script{"greeting": "554 no SMTP service here"}, away},
		"greeting: later":             {script{"greeting": "450 later"}, away},
		"greeting: not SMTP":          {script{"greeting": "HTTP/1.1 400 Bad Request"}, away},
		"greeting: closed":            {script{"greeting": hangUp}, away},
		"EHLO and HELO: later":        {script{"EHLO": "450 later", "HELO": "450 later"}, away},
		"EHLO: closed":                {script{"EHLO": hangUp}, away},
		"MAIL: later":                 {script{"MAIL": "451 later"}, away},
		"MAIL: this sender never":     {script{"MAIL": "550 not your address"}, away},
		"MAIL: log in first":          {script{"MAIL": "530 log in first"}, away},
		"MAIL: too big":               {script{"MAIL": "552 too big"}, no},
		"MAIL: closing":               {script{"MAIL": "421 bye"}, away},
		"MAIL: closed":                {script{"MAIL": hangUp}, away},
		"RCPT: grey list":             {script{"RCPT": "451 grey list"}, later},
		"RCPT: mailbox busy":          {script{"RCPT": "450 busy"}, busy},
		"RCPT: no such user":          {script{"RCPT": "550 5.1.1 no such user"}, refused},
		"RCPT: no":                    {script{"RCPT": "550 no"}, no},
		"RCPT: relay denied":          {script{"RCPT": "554-5.7.1 relay\r\n554 5.7.1 denied"}, no},
		"RCPT: log in first":          {script{"RCPT": "530 log in first"}, away},
		"RCPT: closing":               {script{"RCPT": "421 bye"}, away},
		"RCPT: closed":                {script{"RCPT": hangUp}, away},
		"RCPT: nonsense":              {script{"RCPT": "what?"}, away},
		"DATA: storage full":          {script{"DATA": "452 full"}, later},
		"DATA: no":                    {script{"DATA": "554 no"}, no},
		"DATA: closed":                {script{"DATA": hangUp}, away},
		"the dot: later":              {script{".": "451 later"}, later},
		"the dot: spam":               {script{".": "554 spam"}, no},
		"the dot: not now":            {script{".": "454 4.7.0 not now"}, later},
		"the dot: too big":            {script{".": "552 5.3.4 too big"}, refused},
		"the dot: another yes":        {script{".": "251 OK"}, "none"},
		"the dot: nonsense":           {script{".": "what?"}, away},
		"the dot: what it is not":     {script{".": "354 go on"}, away},
		"DATA: an answer without end": {script{"DATA": flood}, away},
		"RSET: too late to matter":    {script{"RSET": "500 what?"}, "none"},
		"RSET: closed":                {script{"RSET": hangUp}, "none"},
		"the dot: closing":            {script{".": "421 bye"}, away},
		"the dot: closed":             {script{".": hangUp}, away},
		"QUIT: too late to matter":    {script{"QUIT": "500 what?"}, "none"},
		"QUIT: closed":                {script{"QUIT": hangUp}, "none"},
		"QUIT: no answer for a bit":   {script{"QUIT": silence}, "none"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &scriptedServer{script: test.script}
			mailer := newMailer(t, "smtp://"+server.start(t))
			if err := mailer.Send(t.Context(), testEmail()); errorKind(err) != test.want {
				t.Errorf("error %v is %q, want %q", err, errorKind(err), test.want)
			}
		})
	}
}

func TestSMTPWithNobodyThereIsUnavailable(t *testing.T) {
	t.Parallel()
	refusing := servers.FreeAddress(t)
	for _, url := range []string{"smtp://" + refusing, "smtps://" + refusing, "smtp://nobody.invalid:25"} {
		mailer := newMailer(t, url)
		for doing, err := range map[string]error{"Send": mailer.Send(t.Context(), testEmail()), "Probe": mailer.Probe(t.Context())} {
			if errorKind(err) != "without mail" {
				t.Errorf("%s to %s: error %v is %q", doing, url, err, errorKind(err))
			}
		}
	}
}

// TestProbeTellsAServerThatTakesEmailFromOneThatDoesNot: what an e-mail is refused
// for does not count.
func TestProbeTellsAServerThatTakesEmailFromOneThatDoesNot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script script
		takes  bool
	}{
		"takes all":           {script{}, true},
		"refuses a recipient": {script{"RCPT": "550 no such user"}, true},
		"is dropped at RCPT":  {script{"RCPT": hangUp}, true},
		"refuses e-mails":     {script{"DATA": "451 later"}, true},
		"refuses the sender":  {script{"MAIL": "550 not your address"}, false},
		"is busy":             {script{"greeting": "421 busy"}, false},
		"hangs up":            {script{"EHLO": hangUp}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &scriptedServer{script: test.script}
			mailer := newMailer(t, "smtp://"+server.start(t))
			_ = mailer.Send(t.Context(), testEmail()) // so that it knows the sender
			if err := mailer.Probe(t.Context()); (err == nil) != test.takes || (err != nil && errorKind(err) != "without mail") {
				t.Errorf("error %v, want a server that takes e-mail: %t", err, test.takes)
			}
		})
	}
}

func TestProbeSendsNothing(t *testing.T) {
	t.Parallel()
	server := &scriptedServer{script: script{"NOOP": "421 bye"}}
	mailer := newMailer(t, "smtp://"+server.start(t))
	if err := mailer.Probe(t.Context()); errorKind(err) != "without mail" {
		t.Errorf("error %v before the first e-mail", err)
	}
	_ = mailer.Send(t.Context(), testEmail())
	if err := mailer.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if server.times("MAIL") != 2 || server.times("RCPT") != 1 || server.times("DATA") != 1 {
		t.Error("a probe goes beyond MAIL, or not so far")
	}
	if (Log{}).Probe(t.Context()) != nil {
		t.Error("there is no log")
	}
}

// TestEveryErrorIsUTF8: net/textproto quotes what a server has sent. A trace with other bytes would
// be lost, with all others of its batch.
func TestEveryErrorIsUTF8(t *testing.T) {
	t.Parallel()
	for _, script := range []script{{"greeting": "554 g\xfcltig"}, {"RCPT": "550 5.1.1 unbekannter Empf\xe4nger"}, {"RCPT": "450 \xff"}, {".": "what\xff?"}} {
		server := &scriptedServer{script: script}
		err := newMailer(t, "smtp://"+server.start(t)).Send(t.Context(), testEmail())
		if err == nil || !utf8.ValidString(err.Error()) {
			t.Errorf("error %q of %q", err, script)
		}
	}
}

func TestTheAddressIsInNoError(t *testing.T) {
	t.Parallel()
	e := testEmail()
	e.To = "Ada@example.com"
	for _, answer := range []string{"550 5.1.1 <Ada@example.com> unknown", "451 <ada@example.com> later", "554 5.7.1 <Ada@example.com> denied"} {
		server := &scriptedServer{script: script{"RCPT": answer}}
		err := newMailer(t, "smtp://"+server.start(t)).Send(t.Context(), e)
		texts := err.Error()
		if unclear, ok := errors.AsType[*UnclearError](err); ok {
			texts += unclear.MessageError().Error()
		}
		if strings.Contains(strings.ToLower(texts), "ada@") {
			t.Error(texts)
		}
	}
}
