package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestTheProgram(t *testing.T) {
	t.Setenv("DATABASE_URL", servers.Database(t))
	t.Setenv("NATS_URL", newBroker(t).server.ClientURL())
	check.Must(t, run(t.Context()))
}

var errRefused = errors.New("refused")

// TestEachAnswerHasItsError is about the function that a relay calls. What NATS could not take for a
// while arrives later, once and unchanged.
func TestEachAnswerHasItsError(t *testing.T) {
	t.Parallel()
	full, small := stream, stream
	full.MaxBytes, small.MaxMsgSize = 1, 1000
	for name, row := range map[string]struct {
		stream      jetstream.StreamConfig
		fault, mend func(*broker)
		never       func(*publish.Message) // makes it one that NATS could never take
		want        error
	}{
		"no fault":         {stream: stream},
		"no stream":        {mend: (*broker).create, want: publish.ErrReturned},
		"stopped":          {stream: stream, fault: (*broker).stop, mend: (*broker).start, want: publish.ErrNotSent},
		"no answer":        {fault: (*broker).swallow, mend: (*broker).create, want: publish.ErrTimeout},
		"full":             {stream: full, mend: (*broker).create, want: errRefused},
		"large for server": {stream: stream, never: func(m *publish.Message) { m.Body = make([]byte, 70_000) }, want: publish.ErrTooLarge},
		"large for stream": {stream: small, never: func(m *publish.Message) { m.Body = make([]byte, 2_000) }, want: publish.ErrTooLarge},
		"topic":            {stream: stream, never: func(m *publish.Message) { m.Topic = "a.*" }, want: publish.ErrBadTopic},
		"header":           {stream: stream, never: func(m *publish.Message) { m.Headers["a b"] = "x" }, want: publish.ErrBadHeaders},
		"command":          {stream: stream, never: func(m *publish.Message) { m.Headers["nats-rollup"] = "x" }, want: publish.ErrBadHeaders},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			if row.stream.Name != "" {
				_, err := b.js.CreateStream(t.Context(), row.stream)
				check.Must(t, err)
			}
			if row.fault != nil {
				row.fault(b)
			}
			m := publish.Message{
				ID: "17", Topic: "order.created", AppID: "orders", ContentType: "text/x", Body: []byte{0, 255, '\n'},
				Headers: map[string]any{"tenant": "ä 7", "traceparent": "00-1-2-01"},
			}
			if row.never != nil {
				row.never(&m)
			}
			publishesWith := func(want error) func() bool {
				return func() bool { return errors.Is(class(publisher{b.js}.publish(t.Context(), m)), want) }
			}
			check.Await(t, "the answer", publishesWith(row.want))
			if row.mend != nil {
				row.mend(b)
				check.Await(t, "a confirm", publishesWith(nil))
			}
			var want []string
			if row.never == nil {
				want = []string{`outbox.events.order.created [17] [text/x] [ä 7] [00-1-2-01] [orders] "\x00\xff\n"`}
			}
			if got := b.received(); !slices.Equal(got, want) {
				t.Errorf("received %q, want %q", got, want)
			}
		})
	}
}

// class returns what an error tells a relay.
func class(err error) error {
	for _, class := range []error{
		nil, publish.ErrReturned, publish.ErrNotSent, publish.ErrTimeout, publish.ErrTooLarge, publish.ErrBadTopic, publish.ErrBadHeaders,
	} {
		if errors.Is(err, class) {
			return class
		}
	}
	return errRefused
}

// received returns what is in the stream.
func (b *broker) received() (all []string) {
	s, err := b.js.Stream(b.t.Context(), stream.Name)
	check.Must(b.t, err)
	for i := range s.CachedInfo().State.LastSeq {
		m, err := s.GetMsg(b.t.Context(), i+1)
		check.Must(b.t, err)
		h := m.Header
		all = append(all, fmt.Sprintf("%s %s %s %s %s %s %q", m.Subject,
			h[jetstream.MsgIDHeader], h["Content-Type"], h["tenant"], h["traceparent"], h["App-Id"], m.Data))
	}
	return all
}

// broker is a server of NATS in this process, and a connection to it.
type broker struct {
	t       *testing.T
	options server.Options
	server  *server.Server
	js      jetstream.JetStream
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{t: t, options: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), MaxPayload: 1 << 16,
	}}
	b.start()
	b.options.Port = b.server.Addr().(*net.TCPAddr).Port
	nc, js, err := connect(b.server.ClientURL())
	check.Must(t, err)
	b.js = js
	t.Cleanup(func() { nc.Close(); b.stop() })
	return b
}

func (b *broker) start() {
	var err error
	options := b.options // the server changes them
	b.server, err = server.NewServer(&options)
	check.Must(b.t, err)
	b.server.Start()
	if !b.server.ReadyForConnections(check.Limit) {
		b.t.Fatal("NATS does not start")
	}
}

func (b *broker) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// create creates the stream, or gives it more room.
func (b *broker) create() {
	_, err := b.js.CreateOrUpdateStream(b.t.Context(), stream)
	check.Must(b.t, err)
}

// swallow receives in place of a stream, and does not answer.
func (b *broker) swallow() {
	_, err := b.js.Conn().SubscribeSync(prefix + ">")
	check.Must(b.t, err)
}
