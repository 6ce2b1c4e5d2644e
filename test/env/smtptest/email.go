package smtptest

import (
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/check"
)

// Email is an e-mail as it arrived, with lines that end in \n.
type Email struct {
	To  string // of the envelope: the last RCPT
	Raw string
}

// Part is a body of an e-mail, decoded.
type Part struct{ Type, Body string }

// Parse reads an e-mail, as a mail program does. Without parts, the body is the only one.
func (e Email) Parse() (header mail.Header, parts []Part, err error) {
	message, err := mail.ReadMessage(strings.NewReader(e.Raw))
	if err != nil {
		return nil, nil, err
	}
	kind := message.Header.Get("Content-Type")
	separator, err := boundary(message.Header)
	if err != nil {
		body, err := io.ReadAll(message.Body)
		return message.Header, []Part{{kind, string(body)}}, err
	}
	reader := multipart.NewReader(message.Body, separator)
	for {
		part, err := reader.NextPart() // decodes quoted-printable
		if errors.Is(err, io.EOF) {
			return message.Header, parts, nil
		}
		if err != nil {
			return nil, nil, err
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, Part{part.Header.Get("Content-Type"), strings.ReplaceAll(string(body), "\r\n", "\n")})
	}
}

var errOnePart = errors.New("the e-mail is not in parts")

// boundary returns what separates the parts.
func boundary(header mail.Header) (string, error) {
	kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err == nil && kind != "multipart/alternative" {
		err = errOnePart
	}
	return parameters["boundary"], err
}

// HeaderNames returns the names of the header's fields, sorted.
func (e Email) HeaderNames(tb testing.TB) []string {
	tb.Helper()
	header, _, err := e.Parse()
	check.Must(tb, err)
	return slices.Sorted(maps.Keys(header))
}

// Boundary returns what separates the parts.
func (e Email) Boundary(tb testing.TB) string {
	tb.Helper()
	header, _, err := e.Parse()
	check.Must(tb, err)
	separator, err := boundary(header)
	check.Must(tb, err)
	return separator
}

// Bodies returns both parts.
func (e Email) Bodies(tb testing.TB) (text, html string) {
	tb.Helper()
	_, parts, err := e.Parse()
	check.Must(tb, err)
	if len(parts) != 2 || parts[0].Type != "text/plain; charset=UTF-8" || parts[1].Type != "text/html; charset=UTF-8" {
		tb.Fatalf("the parts are %q", parts)
	}
	return parts[0].Body, parts[1].Body
}
