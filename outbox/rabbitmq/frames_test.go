package rabbitmq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func frameOf(kind byte, payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind, 0, 1}, uint32(len(payload)))) + payload + "\xce"
}

func long(s string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s }

// properties has a content type, these headers, and the delivery mode 2.
func properties(headers string) string {
	return frameOf(contentHeader, "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05"+"\xb0\x00"+"\x04text"+long(headers)+"\x02")
}

// nestedList has lists in lists.
func nestedList(depth int) (list string) {
	for range depth {
		list = "A" + long(list)
	}
	return list
}

func TestFramesWithReadableHeadersPassUnchanged(t *testing.T) {
	t.Parallel()
	every := "\x01aS" + long("text") + "\x01bI\x00\x00\x00\x01" + "\x00V" + "\x01ct\x01" + "\x01dF" + long("\x01eA"+long("VVd12345678")) + "\x01fx" + long("\x00")
	all := frameOf(1, "method") + properties("") + properties(every) + frameOf(3, strings.Repeat("body", 5000)) +
		properties("\x01n"+nestedList(32)) + frameOf(8, "") + frameOf(contentHeader, "short") + "AMQP\x00\x00\x09\x01"
	for name, from := range map[string]io.Reader{
		"at once": strings.NewReader(all), "byte by byte": iotest.OneByteReader(strings.NewReader(all)), "half": iotest.HalfReader(strings.NewReader(all)),
	} {
		var got bytes.Buffer
		if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{newFrames(from)}, make([]byte, 100)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(name, err)
		}
		if got.String() != all {
			t.Errorf("%s: %d of %d bytes, or others", name, got.Len(), len(all))
		}
	}
}

func TestHeadersThatCannotBeReadAreReplaced(t *testing.T) {
	t.Parallel()
	for headers, want := range map[string]error{
		"\x01aS" + long(strings.Repeat("x", 128<<10)): errTooLong,
		"\x01n" + nestedList(33):                      errTooDeep, "\x01aA" + long(strings.Repeat("V", maxFields+1)): errTooMany, "\x01a?": errUnknown,
		"\x01aS\x7f\xff\xff\xff": errUnknown, "\x01aI\x00": errUnknown, "\x05a": errUnknown, "\x01": errUnknown, "\x01aF\x00": errUnknown,
	} {
		after := frameOf(3, "body")
		got, err := io.ReadAll(newFrames(strings.NewReader(properties(headers) + after)))
		reason := properties("\x0c" + unreadableHeader + "S" + long(want.Error()))
		if err != nil || !slices.Equal(got, []byte(reason+after)) {
			t.Errorf("%.20q: %q, %v", headers, got, err)
		}
	}
}
