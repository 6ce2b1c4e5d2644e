package mailertest

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

func (e Email) message(tb testing.TB) *mail.Message {
	tb.Helper()
	message, err := mail.ReadMessage(strings.NewReader(e.Raw))
	check.Must(tb, err)
	return message
}

// HeaderNames returns the names of the header's fields, sorted.
func (e Email) HeaderNames(tb testing.TB) []string {
	tb.Helper()
	return slices.Sorted(maps.Keys(e.message(tb).Header))
}

// Boundary returns what separates the parts.
func (e Email) Boundary(tb testing.TB) string {
	tb.Helper()
	kind, parameters, err := mime.ParseMediaType(e.message(tb).Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		tb.Fatalf("Content-Type %q, error %v", kind, err)
	}
	return parameters["boundary"]
}

// Bodies reads both parts, as a mail program does.
func (e Email) Bodies(tb testing.TB) (text, html string) {
	tb.Helper()
	parts := multipart.NewReader(e.message(tb).Body, e.Boundary(tb))
	var found []string
	for _, want := range []string{"text/plain; charset=UTF-8", "text/html; charset=UTF-8"} {
		part, err := parts.NextPart()
		check.Must(tb, err)
		body, err := io.ReadAll(part)
		if is := part.Header.Get("Content-Type"); err != nil || is != want {
			tb.Errorf("part %q, want %q; error %v", is, want, err)
		}
		found = append(found, strings.ReplaceAll(string(body), "\r\n", "\n"))
	}
	if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
		tb.Errorf("there is a third part, or trouble: %v", err)
	}
	return found[0], found[1]
}
