package publisher_test

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/examples/nats/natstest"
	"example.com/transactional-outbox/examples/nats/publisher"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/publish/publishtest"
	"example.com/transactional-outbox/test/servers"
)

// limit is how long a test waits for an event before it fails.
const limit = time.Minute

func TestContract(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.SyncAlways)
	publishtest.Run(t, func(t *testing.T) publishtest.Broker { return newBroker(t, server) })
}

// broker is the server with a stream, for one test.
type broker struct {
	server *natstest.Server
	proxy  *servers.Proxy
	js     jetstream.JetStream
	stream jetstream.StreamConfig
}

func newBroker(t *testing.T, server *natstest.Server) publishtest.Broker {
	proxy, through := servers.ProxyFor(t, server.URL())
	destination := strings.ToLower(rand.Text())
	b := &broker{server: server, proxy: proxy, js: newJetStream(t, server), stream: jetstream.StreamConfig{
		Name: destination, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxBytes: -1,
		Subjects: []string{destination + ".order.created.*", destination + ".order.cancelled.*"},
	}}
	b.change(t, func(*jetstream.StreamConfig) {})
	t.Cleanup(func() { _ = b.js.DeleteStream(context.Background(), destination) })
	return publishtest.Broker{
		Connect:     func(t *testing.T) publish.Session { return connect(t, through) },
		Destination: destination, NoListener: publish.Message{Topic: "order.unheard"},
		Received: b.received, Refuse: b.refuse, Restart: b.restart,
		Cut:     func(*testing.T) { proxy.Cut() },
		Silence: func(*testing.T) func() { proxy.Stall(); return proxy.Resume },
		Invalid: map[error]publish.Message{
			publish.ErrTooLarge:   {Body: make([]byte, 1<<20)},
			publish.ErrBadTopic:   {Topic: "order.*"},
			publish.ErrBadHeaders: {Headers: map[string]any{"reason": "first line\nsecond line"}},
		},
		Impossible: map[string]string{
			"Block": "NATS never asks publishers to wait: a stream that is full refuses",
			"Hold":  "one stream of a server cannot be stopped alone",
		},
	}
}

func connect(t *testing.T, url string) *publisher.Session {
	t.Helper()
	session, err := publisher.Connect(publisher.Config{URL: url, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

func newJetStream(t *testing.T, server *natstest.Server) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(server.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// change changes the stream, and creates it the first time.
func (b *broker) change(t *testing.T, change func(*jetstream.StreamConfig)) {
	t.Helper()
	changed := b.stream
	change(&changed)
	if _, err := b.js.CreateOrUpdateStream(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
}

// refuse makes the stream full.
func (b *broker) refuse(t *testing.T) (undo func()) {
	b.change(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	return func() { b.change(t, func(*jetstream.StreamConfig) {}) }
}

// restart waits until the test's own connection is back, because others of its functions use it.
func (b *broker) restart(t *testing.T) {
	b.server.Restart(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for b.js.Conn().Status() != nats.CONNECTED && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// received reads the stream from its first message, until it has n of them, to the end that it has
// by then: messages may be published meanwhile.
func (b *broker) received(t *testing.T, n int) (messages []publish.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	stream, err := b.js.Stream(ctx, b.stream.Name)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := uint64(1); len(messages) < n; {
		info, err := stream.Info(ctx)
		if err != nil {
			t.Fatalf("the stream has %d messages, want %d: %v", len(messages), n, err)
		}
		for ; sequence <= info.State.LastSeq; sequence++ {
			m, err := stream.GetMsg(ctx, sequence)
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, received(b.stream.Name, m))
		}
	}
	return messages
}

// received returns a message as a consumer understands it.
func received(destination string, m *jetstream.RawStreamMsg) publish.Message {
	tokens := strings.Split(strings.TrimPrefix(m.Subject, destination+"."), ".")
	last := len(tokens) - 1
	at, _ := time.Parse(time.RFC3339Nano, m.Header.Get(publisher.TimestampHeader))
	converted := publish.Message{
		ID: m.Header.Get(publisher.IDHeader), Destination: destination,
		Topic: strings.Join(tokens[:last], "."), Group: tokens[last],
		ContentType: m.Header.Get(publisher.ContentTypeHeader), AppID: m.Header.Get(publisher.AppIDHeader),
		Timestamp: at, Headers: map[string]any{}, Body: m.Data,
	}
	for name := range m.Header {
		converted.Headers[name] = m.Header.Get(name)
		if number, err := strconv.ParseInt(m.Header.Get(name), 10, 64); err == nil {
			converted.Headers[name] = number
		}
	}
	return converted
}
