// These tests prove what becomes of an e-mail, for each answer of a mail server, and that the mailer
// is a destination as package publish wants it.
package mailer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/gob"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/publish/publishtest"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/smtptest"
)

// TestContract runs all that a mail server can do. The e-mail's text has the whole message.
func TestContract(t *testing.T) {
	t.Parallel()
	publishtest.Run(t, func(t *testing.T) publishtest.Broker {
		var refusing atomic.Bool
		var holding atomic.Pointer[chan struct{}]
		server := &smtptest.Server{At: func(step, to string) string {
			if held := holding.Load(); held != nil && step == "." && strings.HasSuffix(to, "@held.example") {
				<-*held
			}
			if refusing.Load() && step == "RCPT" {
				return "451 4.3.0 not now"
			}
			return ""
		}}
		listener := smtptest.Listen(t)
		address := listener.Addr().String()
		stop := server.Serve(listener)
		t.Cleanup(func() { stop() })
		proxy := servers.NewProxy(t, address)
		d := newDestination(t, "smtp://"+proxy.Addr(), 8)
		d.Compose = composeWhole
		d.limits.busy = time.Minute // half of the connections take long for 500 e-mails of one domain
		var sessions []context.Context
		return publishtest.Broker{
			Connect: func(t *testing.T) publish.Session {
				s, lost := connect(t, d)
				sessions = append(sessions, lost)
				return s
			},
			Destination: "a mail server has none",
			Received:    func(t *testing.T, n int) []publish.Message { return received(t, server, n) },
			Refuse: func(*testing.T) func() {
				refusing.Store(true)
				return func() { refusing.Store(false) }
			},
			Silence: func(*testing.T) func() { proxy.HoldReplies(); return proxy.Resume },
			Hold: func(*testing.T) func() {
				held := make(chan struct{})
				holding.Store(&held)
				return func() { holding.Store(nil); close(held) }
			},
			Held: publish.Message{Topic: "held.example"},
			Restart: func(t *testing.T) {
				stop()
				for _, lost := range sessions {
					<-lost.Done() // they know
				}
				again, err := net.Listen("tcp", address)
				check.Must(t, err)
				stop = server.Serve(again)
			},
			Invalid: map[error]publish.Message{publish.ErrInvalid: {Topic: "no domain\r\nBcc: eve@example.com"}},
			Impossible: map[string]string{
				"Cut":        "a session of this kind goes on with new connections",
				"NoListener": "a mail server has no consumers",
				"Block":      "a mail server does not ask its clients to wait",
			},
		}
	})
}

// composeWhole writes the message into the e-mail. Its topic is the recipient's domain.
func composeWhole(m publish.Message) (Email, error) {
	var whole bytes.Buffer
	err := gob.NewEncoder(&whole).Encode(m)
	return Email{To: "ada@" + m.Topic, Subject: m.ID, Text: base64.StdEncoding.EncodeToString(whole.Bytes()), HTML: "-"}, err
}

// received waits until the server has n e-mails, and returns the messages in all of them.
func received(t *testing.T, server *smtptest.Server, n int) (messages []publish.Message) {
	t.Helper()
	check.Await(t, "the e-mails arrive", func() bool { return len(server.Received()) >= n })
	for _, e := range server.Received() {
		text, _ := e.Bodies(t)
		whole, err := base64.StdEncoding.DecodeString(text)
		var m publish.Message
		err = errors.Join(err, gob.NewDecoder(bytes.NewReader(whole)).Decode(&m))
		check.Must(t, err)
		messages = append(messages, m)
	}
	return messages
}
