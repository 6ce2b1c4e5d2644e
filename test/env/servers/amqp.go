package servers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const probeTimeout = 5 * time.Second

// AMQPVersion returns the version of the broker at address, or an error if no broker answers.
// It sends only the protocol header, so it needs no AMQP client and no password.
func AMQPVersion(ctx context.Context, address string) (version string, err error) {
	err = ask(ctx, probeTimeout, address, "AMQP\x00\x00\x09\x01", func(r io.Reader) (err error) {
		version, err = readVersion(r)
		return err
	})
	return version, err
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

// readVersion reads the method frame Connection.Start, which has the broker's version.
func readVersion(r io.Reader) (string, error) {
	const longest = 1 << 16
	var frame struct {
		Type          uint8
		Channel       uint16
		Size          uint32
		Class, Method uint16
	}
	if err := binary.Read(r, binary.BigEndian, &frame); err != nil {
		return "", fmt.Errorf("no AMQP answer: %w", err)
	}
	if frame.Type != 1 || frame.Class != 10 || frame.Method != 10 || frame.Size < 4 || frame.Size > longest {
		return "", errors.New("the answer is not AMQP 0-9-1")
	}
	payload := make([]byte, frame.Size-4)
	if _, err := io.ReadFull(r, payload); err != nil {
		return "", fmt.Errorf("no complete AMQP answer: %w", err)
	}
	return stringField(payload, "version"), nil
}

// stringField finds a string in an AMQP table. A field is the length of the name, the name, an
// S, the length of the value in four bytes, and the value.
func stringField(table []byte, name string) string {
	_, value, found := bytes.Cut(table, append([]byte{byte(len(name))}, name+"S"...))
	if !found || len(value) < 4 {
		return ""
	}
	length := int(binary.BigEndian.Uint32(value))
	return string(value[4:min(len(value), 4+length)])
}
