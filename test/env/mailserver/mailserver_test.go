package mailserver_test

import (
	"fmt"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/test/env/mailserver"
)

const letter = "Message-ID: <1@example.com>\r\nSubject: hello\r\n\r\nbody\r\n"

func send(s *mailserver.Server) error { return sendTo(s, "ada@example.com") }

func sendTo(s *mailserver.Server, to string) error {
	return smtp.SendMail(s.Address(), nil, "shop@example.com", []string{to}, []byte(letter))
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

func TestItRecordsEachEmail(t *testing.T) {
	t.Parallel()
	s := open(t)
	if err := send(s); err != nil {
		t.Fatal(err)
	}
	mails := s.Mails()
	if len(mails) != 1 || mails[0].MessageID != "<1@example.com>" || mails[0].To != "ada@example.com" || mails[0].Subject != "hello" {
		t.Errorf("%+v", mails)
	}
}

func TestItRefusesTheGivenNumberOfTimes(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.SetFault(mailserver.Fault{Code: 451, Times: 2})
	for range 2 {
		if err := send(s); err == nil || !strings.HasPrefix(err.Error(), "451") {
			t.Errorf("%v", err)
		}
	}
	if err := send(s); err != nil || s.Injected() != 2 || len(s.Mails()) != 1 {
		t.Errorf("%v, %d, %v", err, s.Injected(), s.Mails())
	}
}

func TestItAcceptsAnEmailAndDropsTheConnection(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.SetFault(mailserver.Fault{Drop: true, Times: 1})
	if err := send(s); err == nil || len(s.Mails()) != 1 || !s.Mails()[0].Cut {
		t.Errorf("%v, %v", err, s.Mails())
	}
}

func TestItAcceptsSeveralEmailsOverOneConnection(t *testing.T) {
	t.Parallel()
	s := open(t)
	c, err := smtp.Dial(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, to := range []string{"ada@example.com", "eve@example.com", "ada@example.com"} {
		if err := transfer(c, to); err != nil {
			t.Fatal(err)
		}
		if err := c.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Mails()) != 3 || s.Mails()[1].To != "eve@example.com" {
		t.Errorf("%v", s.Mails())
	}
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
	if _, err := fmt.Fprint(w, letter); err != nil {
		return err
	}
	return w.Close()
}

func TestItRefusesAtTheGivenStepAndRecipients(t *testing.T) {
	t.Parallel()
	for answer, fault := range map[string]mailserver.Fault{
		"451 4.7.1": {Code: 451, Enhanced: [3]int{4, 7, 1}},
		"454 4.3.0": {Code: 454, Enhanced: [3]int{4, 3, 0}, AfterData: true},
		"554 5.7.1": {Code: 554, Enhanced: [3]int{5, 7, 1}},
		"550 5.1.1": {Code: 550, Enhanced: [3]int{5, 1, 1}, Only: func(to string) bool { return to == "ada@example.com" }},
		"421":       {Code: 421},
	} {
		s := open(t)
		s.SetFault(fault)
		if err := send(s); err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), `"`, ""), answer) {
			t.Errorf("%s: %v", answer, err)
		}
		taken := 0
		if err := sendTo(s, "eve@example.com"); err == nil {
			taken++
		}
		if spared := fault.Only != nil; len(s.Mails()) != taken || spared != (taken == 1) {
			t.Errorf("%s: %d taken", answer, len(s.Mails()))
		}
	}
}

func TestItClosesTheConnectionAfter421(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.SetFault(mailserver.Fault{Code: 421, Times: 1})
	c, err := smtp.Dial(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := transfer(c, "ada@example.com"); err == nil || !strings.HasPrefix(err.Error(), "421") {
		t.Fatalf("%v", err)
	}
	if err := c.Noop(); err == nil {
		t.Error("the connection is still open")
	}
}

func TestItRecordsAnEmailBeforeItsLateAnswer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]mailserver.Fault{
		"held": {HoldData: true, Times: 1}, "late": {DataDelay: time.Hour, Times: 1},
	} {
		s := open(t)
		s.SetFault(fault)
		ended := make(chan error, 1)
		go func() { ended <- send(s) }()
		for len(s.Mails()) == 0 || s.Injected() == 0 {
			time.Sleep(time.Millisecond)
		}
		select {
		case err := <-ended:
			t.Errorf("%s: it was answered: %v", name, err)
		default:
		}
		if err := send(s); err != nil {
			t.Errorf("%s, and then a second one: %v", name, err)
		}
		if name == "late" {
			continue
		}
		s.SetFault(mailserver.Fault{})
		if err := <-ended; err != nil {
			t.Errorf("%v", err)
		}
	}
}
