package mailserver_test

import (
	"net/smtp"
	"strings"
	"testing"

	"example.com/transactional-outbox/chaos/mailserver"
)

const letter = "Message-ID: <1@example.com>\r\nSubject: hello\r\n\r\nbody\r\n"

func send(s *mailserver.Server) error {
	return smtp.SendMail(s.Address(), nil, "shop@example.com", []string{"ada@example.com"}, []byte(letter))
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

func TestItKeepsALedger(t *testing.T) {
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

func TestItRefusesAsOftenAsItIsTold(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.Feel(mailserver.Mood{Code: 451, Times: 2})
	for range 2 {
		if err := send(s); err == nil || !strings.HasPrefix(err.Error(), "451") {
			t.Errorf("%v", err)
		}
	}
	if err := send(s); err != nil || s.Misbehaved() != 2 || len(s.Mails()) != 1 {
		t.Errorf("%v, %d, %v", err, s.Misbehaved(), s.Mails())
	}
}

func TestItTakesAnEmailAndDoesNotSaySo(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.Feel(mailserver.Mood{Drop: true, Times: 1})
	if err := send(s); err == nil || len(s.Mails()) != 1 {
		t.Errorf("%v, %v", err, s.Mails())
	}
}
