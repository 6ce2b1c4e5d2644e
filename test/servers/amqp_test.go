package servers_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers"
)

func TestReadVersionRejectsOtherProtocols(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":          "",
		"HTTP":             "HTTP/1.1 400 Bad Request\r\n\r\n",
		"another protocol": "AMQP\x00\x01\x00\x00.......",
		"a huge frame":     "\x01\x00\x00\xff\xff\xff\xff\x00\x0a\x00\x0a",
		"half a frame":     "\x01\x00\x00\x00\x00\x00\xff\x00\x0a\x00\x0a...",
	} {
		if _, err := servers.ReadVersion(strings.NewReader(answer)); err == nil {
			t.Errorf("%s was accepted as the answer of a broker", name)
		}
	}
}

func TestReadVersion(t *testing.T) {
	const payload = "....\x07versionS\x00\x00\x00\x053.8.1...."
	frame := "\x01\x00\x00\x00\x00\x00" + string(rune(len(payload)+4)) + "\x00\x0a\x00\x0a" + payload
	if got, err := servers.ReadVersion(strings.NewReader(frame)); got != "3.8.1" || err != nil {
		t.Errorf("got version %q, %v", got, err)
	}
}

func TestAMQPVersionDoesNotWaitForever(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	must(t, err)
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := servers.AMQPVersion(ctx, listener.Addr().String()); err == nil {
		t.Error("a server without an answer was accepted as a broker")
	}
}
