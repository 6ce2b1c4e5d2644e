package mailserver

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"time"

	"github.com/emersion/go-smtp"

	"example.com/transactional-outbox/chaos/checker"
)

// session is one connection of a client.
type session struct {
	server *Server
	conn   *smtp.Conn
	to     string
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	s.server.hold(to, func(m Mood) bool { return m.Hold })
	mood, bad := s.server.now(to, func(m Mood) bool { return m.Delay > 0 || m.Code > 0 && !m.AtDot })
	if bad {
		s.server.wait(mood.Delay)
		if mood.Code > 0 {
			return s.refuse(mood)
		}
	}
	s.server.accept()
	return nil
}

// refuse returns the answer. A server that closes (421) does so behind it.
func (s *session) refuse(m Mood) error {
	if m.Code == 421 {
		socket := s.conn.Conn()
		_, _ = fmt.Fprintf(socket, "421 4.3.2 closing the connection\r\n")
		_ = s.conn.Close()
	}
	return m.refusal()
}

func (s *session) Data(r io.Reader) error {
	m, err := read(r)
	if err != nil {
		return err
	}
	m.To = s.to
	if mood, bad := s.server.now(s.to, func(m Mood) bool { return m.AtDot && m.Code > 0 }); bad {
		return s.refuse(mood)
	}
	_, m.Cut = s.server.now(s.to, func(m Mood) bool { return m.Drop })
	s.server.take(m)
	if m.Cut {
		return s.conn.Close()
	}
	s.server.hold(s.to, func(m Mood) bool { return m.HoldAtDot })
	if mood, late := s.server.now(s.to, func(m Mood) bool { return m.Late > 0 }); late {
		s.server.wait(mood.Late)
	}
	return nil
}

// read is strict: an e-mail that no program of a customer could show is an error.
func read(r io.Reader) (m checker.Mail, err error) {
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

// dateOf is zero if there is none.
func dateOf(message *mail.Message) time.Time {
	date, _ := message.Header.Date()
	return date
}

// bodies are all parts, decoded.
func bodies(message *mail.Message) (all []string, err error) {
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		body, err := decoded(message.Body, message.Header.Get("Content-Transfer-Encoding"))
		return []string{body}, err
	}
	parts := multipart.NewReader(message.Body, parameters["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF { //nolint:errorlint // as its documentation says
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := decoded(part, part.Header.Get("Content-Transfer-Encoding"))
		if err != nil {
			return nil, err
		}
		all = append(all, body)
	}
}

func decoded(r io.Reader, encoding string) (string, error) {
	if encoding == "quoted-printable" {
		r = quotedprintable.NewReader(r)
	}
	content, err := io.ReadAll(r)
	return string(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))), err
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
