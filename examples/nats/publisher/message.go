package publisher

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/outbox/publish"
)

// The headers that carry the properties of a message. The key is also in the subject, but a
// consumer would have to know the destination to find it there.
const (
	IDHeader          = jetstream.MsgIDHeader // the stream uses it to recognise repeats
	KeyHeader         = "Type"
	ContentTypeHeader = "Content-Type"
	AppIDHeader       = "App-Id"
	TimestampHeader   = "Timestamp" // RFC 3339
)

const (
	// maxSubject leaves room in the server's max_control_line, 4096 bytes by default. A longer line
	// ends the connection.
	maxSubject = 1024
	// maxHeaders is the limit of JetStream.
	maxHeaders = 64<<10 - 1
)

// convert returns the message as it is sent, or why it cannot be sent.
func convert(m publish.Message, maxPayload int64) (*nats.Msg, error) {
	subject, err := subjectOf(m)
	if err != nil {
		return nil, err
	}
	header, err := headerOf(m)
	if err != nil {
		return nil, err
	}
	msg := &nats.Msg{Subject: subject, Header: header, Data: m.Body}

	if size := sizeOf(header); size > maxHeaders {
		return nil, fmt.Errorf("%w: %d bytes, the server takes %d", publish.ErrBadHeaders, size, maxHeaders)
	} else if all := int64(size + len(m.Body)); all > maxPayload {
		return nil, fmt.Errorf("%w: %d bytes with its headers, the server takes %d", publish.ErrTooLarge, all, maxPayload)
	}
	return msg, nil
}

// subjectOf returns the subject. A message may have neither topic nor group.
func subjectOf(m publish.Message) (string, error) {
	parts := []string{m.Destination}
	if m.Topic != "" {
		parts = append(parts, m.Topic)
	}
	if m.Group != "" {
		parts = append(parts, m.Group)
	}
	subject := strings.Join(parts, ".")
	switch {
	case len(subject) > maxSubject:
		return "", fmt.Errorf("%w: the subject has %d bytes, the limit is %d", publish.ErrBadTopic, len(subject), maxSubject)
	case strings.Contains(m.Group, "."):
		return "", fmt.Errorf("%w: the group %q has a dot", publish.ErrBadTopic, m.Group)
	case !isSubject(subject):
		return "", fmt.Errorf("%w: %q is not a subject of NATS", publish.ErrBadTopic, subject)
	}
	return subject, nil
}

// isSubject reports whether messages can be published to a subject: tokens without white space,
// control characters and wildcards, and dots between them.
func isSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || !isVisible(token) || strings.ContainsAny(token, "*>") {
			return false
		}
	}
	return true
}

func isVisible(s string) bool {
	return strings.ToValidUTF8(s, "") == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

func headerOf(m publish.Message) (nats.Header, error) {
	header := nats.Header{
		IDHeader: {m.ID}, KeyHeader: {m.Topic}, ContentTypeHeader: {m.ContentType},
		AppIDHeader: {m.AppID}, TimestampHeader: {m.Timestamp.UTC().Format(time.RFC3339Nano)},
	}
	own := len(header)
	for name, value := range m.Headers {
		text, err := textOf(value)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", publish.ErrBadHeaders, name, err)
		}
		header[name] = []string{text}
	}
	if len(header) != own+len(m.Headers) {
		return nil, fmt.Errorf("%w: a header has the name of a property", publish.ErrBadHeaders)
	}
	for name, values := range header {
		if err := checkHeader(name, values[0]); err != nil {
			return nil, err
		}
		if _, extra := m.Headers[name]; extra && strings.HasPrefix(strings.ToLower(name), "nats-") {
			return nil, fmt.Errorf("%w: %q would be an instruction for the server", publish.ErrBadHeaders, name)
		}
	}
	return header, nil
}

func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	default:
		return "", fmt.Errorf("a value of type %T", value)
	}
}

// checkHeader refuses a header that the client library or the server would change: they remove
// white space at the ends, and replace line ends by spaces.
func checkHeader(name, value string) error {
	switch {
	case name == "" || !isVisible(name) || strings.Contains(name, ":"):
		return fmt.Errorf("%w: %q is not a valid name", publish.ErrBadHeaders, name)
	case strings.ContainsAny(value, "\r\n\x00") || strings.TrimSpace(value) != value:
		return fmt.Errorf("%w: the value of %q has line ends, or white space at its ends", publish.ErrBadHeaders, name)
	}
	return nil
}

// sizeOf returns the size of the headers as they are sent.
func sizeOf(header nats.Header) int {
	size := len("NATS/1.0\r\n") + len("\r\n")
	for name, values := range header {
		size += len(name) + len(": ") + len(values[0]) + len("\r\n")
	}
	return size
}
