package servers

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

const probeTimeout = 5 * time.Second

// AMQPAnswers returns an error unless a broker answers at address. It sends only the protocol
// header, so it needs no AMQP client and no password.
func AMQPAnswers(ctx context.Context, address string) error {
	return ask(ctx, probeTimeout, address, "AMQP\x00\x00\x09\x01", func(r io.Reader) error {
		var frame struct { // the beginning of the method Connection.Start
			Type          uint8
			Channel       uint16
			Size          uint32
			Class, Method uint16
		}
		err := binary.Read(r, binary.BigEndian, &frame)
		if err == nil && (frame.Type != 1 || frame.Class != 10 || frame.Method != 10) {
			err = errors.New("the answer is not AMQP 0-9-1")
		}
		return err
	})
}

// ask sends a request to the server at address, and reads its answer.
func ask(ctx context.Context, timeout time.Duration, address, request string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	return read(conn)
}
