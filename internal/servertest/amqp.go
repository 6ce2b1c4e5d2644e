package servertest

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

// AMQPVersion returns the version of the broker that listens on address, or why none
// answers. It says no more than hello, so it needs no AMQP client and no password.
func AMQPVersion(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "AMQP\x00\x00\x09\x01"); err != nil {
		return "", err
	}
	return readVersion(conn)
}

// readVersion reads the method frame Connection.Start, in which the broker presents itself.
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

// stringField finds a string in an AMQP table: the name with its length, an S, four
// bytes of length, the value.
func stringField(table []byte, name string) string {
	_, value, found := bytes.Cut(table, append([]byte{byte(len(name))}, name+"S"...))
	if !found || len(value) < 4 {
		return ""
	}
	length := int(binary.BigEndian.Uint32(value))
	return string(value[4:min(len(value), 4+length)])
}
