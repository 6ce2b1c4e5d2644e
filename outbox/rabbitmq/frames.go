package rabbitmq

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// frames makes every message that the broker sends readable. The client library closes the
// connection when it cannot read the headers of one: all other messages of the connection would
// come again, for ever. So frames replaces such headers by one, unreadableHeader, with the reason.
// All else passes unchanged.
type frames struct {
	in    *bufio.Reader
	ready []byte // of a frame, to be read next
	pass  int    // bytes of a frame, to be read from in unchanged
}

const (
	unreadableHeader = "x-unreadable"

	frameStart    = 7 // type, channel, size
	contentHeader = 2 // the type of a frame with the properties of a message
	// maxFrame is what a client and RabbitMQ agree to. When the broker adds to headers, it may send more.
	maxFrame = 128 << 10
	// maxHeaderFrame is more than the largest frame that a client agrees to.
	maxHeaderFrame = 1 << 20
)

func newFrames(from io.Reader) *frames { return &frames{in: bufio.NewReader(from)} }

// Read returns as much as there is, and waits only if there is nothing.
func (f *frames) Read(p []byte) (n int, err error) {
	for n < len(p) && (n == 0 || !f.waits()) {
		k, err := f.next(p[n:])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// waits is true if the next bytes have not come yet.
func (f *frames) waits() bool {
	switch {
	case len(f.ready) > 0:
		return false
	case f.pass > 0:
		return f.in.Buffered() == 0
	default:
		return f.in.Buffered() < frameStart
	}
}

func (f *frames) next(p []byte) (n int, err error) {
	switch {
	case len(f.ready) > 0:
		n = copy(p, f.ready)
		f.ready = f.ready[n:]
	case f.pass > 0:
		n, err = f.in.Read(p[:min(len(p), f.pass)])
		f.pass -= n
	default:
		err = f.begin()
	}
	return n, err
}

// begin reads the start of a frame, and all of one with the properties of a message.
func (f *frames) begin() error {
	start := make([]byte, frameStart)
	if n, err := io.ReadFull(f.in, start); err != nil {
		f.ready = start[:n]
		return err
	}
	f.ready = start
	size := int(binary.BigEndian.Uint32(start[3:]))
	if start[0] != contentHeader || size > maxHeaderFrame {
		f.pass = size + 1 // and the end of the frame
		return nil
	}
	frame := slices.Concat(start, make([]byte, size+1))
	if _, err := io.ReadFull(f.in, frame[frameStart:]); err != nil {
		return err
	}
	f.ready = readable(frame)
	return nil
}

// readable returns a frame with the properties of a message. If its headers cannot be read, it has
// others. What is wrong in any other way stays as it is.
//
//	class (2), weight (2), size of the body (8), flags (2), properties: each is there if its flag is set
func readable(frame []byte) []byte {
	const flagsAt, hasContentType, hasEncoding, hasHeaders = frameStart + 12, 1 << 15, 1 << 14, 1 << 13
	at := flagsAt + 2
	if len(frame) <= at {
		return frame
	}
	flags := binary.BigEndian.Uint16(frame[flagsAt:])
	for _, property := range []uint16{hasContentType, hasEncoding} {
		if flags&property != 0 && at < len(frame) {
			at += 1 + int(frame[at])
		}
	}
	if flags&hasHeaders == 0 || len(frame) < at+4 {
		return frame
	}
	end := at + 4 + int(binary.BigEndian.Uint32(frame[at:]))
	if end >= len(frame) {
		return frame
	}
	err := checkFields(frame[at+4:end], true, 0)
	if len(frame) > maxFrame {
		err = errTooLong
	}
	if err == nil {
		return frame
	}
	field := append([]byte{byte(len(unreadableHeader))}, unreadableHeader+"S"...)
	field = append(binary.BigEndian.AppendUint32(field, uint32(len(err.Error()))), err.Error()...) //nolint:gosec // short
	table := append(binary.BigEndian.AppendUint32(nil, uint32(len(field))), field...)              //nolint:gosec // short
	frame = slices.Replace(frame, at, end, table...)
	binary.BigEndian.PutUint32(frame[3:], uint32(len(frame)-frameStart-1)) //nolint:gosec // shorter than it was, or by a few bytes longer
	return frame
}

// What the client library reads: no more values in a table or an array, and no deeper ones.
const (
	maxFields = 8192
	maxDepth  = 32
)

// fixed has the sizes of the values that always have the same.
var fixed = map[byte]int{'t': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'l': 8, 'f': 4, 'd': 8, 'D': 5, 'T': 8, 'V': 0}

var (
	errTooLong = errors.New("its headers are longer than a frame")
	errTooDeep = errors.New("its headers have tables or lists that are nested too deep")
	errTooMany = errors.New("its headers have a table or a list with too many values")
	errUnknown = errors.New("its headers have a value that AMQP does not have")
)

// checkFields checks what a table has, which has names, or an array.
func checkFields(b []byte, named bool, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	for n := 0; len(b) > 0; n++ {
		if n == maxFields {
			return errTooMany
		}
		if named {
			b = b[min(1+int(b[0]), len(b)):]
		}
		if len(b) == 0 {
			return errUnknown
		}
		kind := b[0]
		b = b[1:]
		size, ok := fixed[kind]
		if !ok {
			if len(b) < 4 || !slices.Contains([]byte("SxAF"), kind) {
				return errUnknown
			}
			size = int(binary.BigEndian.Uint32(b))
			b = b[4:]
		}
		if size > len(b) {
			return errUnknown
		}
		if kind == 'A' || kind == 'F' {
			if err := checkFields(b[:size], kind == 'F', depth+1); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}
