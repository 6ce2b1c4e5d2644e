package mailserver_test

import (
	"errors"
	"io"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/test/env/mailserver"
)

const letter = "Message-ID: <1@example.com>\r\nSubject: hello\r\n\r\nbody\r\n"

// sendTo sends two e-mails over one connection, unless the first one fails.
func sendTo(s *mailserver.Server, to string) error {
	c, err := smtp.Dial(s.Address())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := transfer(c, to); err != nil {
		if _ = c.Noop(); strings.HasPrefix(err.Error(), "421") && c.Noop() == nil {
			return errors.New("the connection is still open") // the first NOOP may get a second 421
		}
		return err
	}
	return transfer(c, to)
}

func transfer(c *smtp.Client, to string) error {
	if err := c.Mail("shop@example.com"); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, letter)
	return errors.Join(err, w.Close())
}

func open(t *testing.T) *mailserver.Server {
	t.Helper()
	s, err := mailserver.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestEachFaultHappensOnce sends an e-mail during each fault, and then two others.
func TestEachFaultHappensOnce(t *testing.T) {
	t.Parallel()
	toAda := func(to string) bool { return to == "ada@example.com" }
	for name, test := range map[string]struct {
		fault    mailserver.Fault
		answer   string // the beginning; the client puts an enhanced code in quotes
		recorded int
	}{
		"refused":            {mailserver.Fault{Code: 451, Enhanced: [3]int{4, 7, 1}}, "451 4.7.1", 0},
		"refused after DATA": {mailserver.Fault{Code: 454, Enhanced: [3]int{4, 3, 0}, AfterData: true}, "454 4.3.0", 0},
		"one recipient":      {mailserver.Fault{Code: 550, Enhanced: [3]int{5, 1, 1}, Only: toAda}, "550 5.1.1", 0},
		"the server closes":  {mailserver.Fault{Code: 421}, "421", 0},
		"a lost answer":      {mailserver.Fault{Drop: true}, "EOF", 1},
	} {
		s := open(t)
		test.fault.Times = 1
		s.SetFault(test.fault)
		if test.fault.Only != nil && sendTo(s, "eve@example.com") == nil {
			test.recorded = 2
		}
		err := sendTo(s, "ada@example.com")
		if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), `"`, ""), test.answer) || len(s.Mails()) != test.recorded {
			t.Errorf("%s: %v, %+v", name, err, s.Mails())
		}
		if err := sendTo(s, "ada@example.com"); err != nil || s.Injected() != 1 || len(s.Mails()) != test.recorded+2 {
			t.Errorf("%s, and then others: %v, %d injected, %+v", name, err, s.Injected(), s.Mails())
		}
	}
}

func TestItRecordsAnEmailBeforeItsLateAnswer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]mailserver.Fault{"held": {HoldData: true}, "late": {DataDelay: time.Hour}} {
		s := open(t)
		s.SetFault(fault)
		ended := make(chan error, 1)
		go func() { ended <- sendTo(s, "ada@example.com") }()
		for len(s.Mails()) == 0 || s.Injected() == 0 {
			time.Sleep(time.Millisecond)
		}
		select {
		case err := <-ended:
			t.Errorf("%s: it was answered: %v", name, err)
		default:
		}
		s.SetFault(mailserver.Fault{})
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if m := s.Mails()[0]; m.MessageID != "<1@example.com>" || m.To != "ada@example.com" || m.Subject != "hello" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
