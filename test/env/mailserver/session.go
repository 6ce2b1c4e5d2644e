package mailserver

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"time"

	"github.com/emersion/go-smtp"
)

// session is one client's connection.
type session struct {
	server *Server
	conn   *smtp.Conn
	to     string
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	if err := s.server.answer(to); err != nil {
		return err
	}
	fault, applies := s.server.faultAt(to, func(f Fault) bool { return f.RcptDelay > 0 || f.Code > 0 && !f.AfterData })
	if applies {
		s.server.wait(fault.RcptDelay)
		if fault.Code > 0 {
			return s.refuse(fault)
		}
	}
	return nil
}

// refuse returns the reply. With 421 the server sends it itself and closes the connection.
func (s *session) refuse(f Fault) error {
	if f.Code == 421 {
		socket := s.conn.Conn()
		_, _ = fmt.Fprintf(socket, "421 4.3.2 closing the connection\r\n")
		_ = s.conn.Close()
	}
	return f.Refusal()
}

func (s *session) Data(r io.Reader) error {
	m, err := read(r)
	if err != nil {
		return err
	}
	m.To = s.to
	if fault, applies := s.server.faultAt(s.to, func(f Fault) bool { return f.AfterData && f.Code > 0 }); applies {
		return s.refuse(fault)
	}
	_, m.Cut = s.server.faultAt(s.to, func(f Fault) bool { return f.Drop })
	s.server.record(m)
	if m.Cut {
		return s.conn.Close()
	}
	s.server.hold(s.to)
	if fault, late := s.server.faultAt(s.to, func(f Fault) bool { return f.DataDelay > 0 }); late {
		s.server.wait(fault.DataDelay)
	}
	return nil
}

// read parses an e-mail. A malformed one is an error, because a mail program could not show it.
func read(r io.Reader) (m Mail, err error) {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return m, err
	}
	m.MessageID, m.Date = message.Header.Get("Message-ID"), dateOf(message)
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return m, err
	}
	m.Bodies, err = bodies(message)
	return m, err
}

// dateOf returns zero if the e-mail has no date.
func dateOf(message *mail.Message) time.Time {
	date, _ := message.Header.Date()
	return date
}

// bodies returns the decoded parts, or the body if there are none.
func bodies(message *mail.Message) (all []string, err error) {
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		body, err := io.ReadAll(message.Body)
		return []string{string(body)}, err
	}
	parts := multipart.NewReader(message.Body, parameters["boundary"])
	for {
		part, err := parts.NextPart() // decodes quoted-printable
		if err == io.EOF {            //nolint:errorlint // as its documentation says
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.ReplaceAll(string(body), "\r\n", "\n"))
	}
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
