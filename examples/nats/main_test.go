package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestTheProgram(t *testing.T) {
	t.Setenv("DATABASE_URL", servers.Database(t))
	t.Setenv("NATS_URL", newBroker(t).server.ClientURL())
	check.Must(t, run(t.Context()))
}

// TestEachAnswerHasItsOutcome through a relay. Nothing fails but what NATS could never take, and all
// events of an order arrive once, unchanged, in their order.
func TestEachAnswerHasItsOutcome(t *testing.T) {
	t.Parallel()
	full, small := stream, stream
	full.MaxMsgs, small.MaxMsgSize = 1, 1000
	never := func(topic string, bytes int, header string) []outbox.Event {
		return []outbox.Event{{Topic: topic, Payload: make([]byte, bytes), Headers: map[string]string{header: "x"}}}
	}
	for name, row := range map[string]struct {
		stream      jetstream.StreamConfig
		fault, mend func(*broker)
		never       []outbox.Event // NATS could never take it
		code        string         // the failure_code, or not_sent
	}{
		"no fault":         {stream: stream},
		"no stream":        {mend: (*broker).create, code: "unroutable"},
		"stopped":          {stream: stream, fault: (*broker).stop, mend: (*broker).start, code: "not_sent"},
		"no answer":        {fault: (*broker).swallow, mend: (*broker).create, code: "no_answer"},
		"full":             {stream: full, mend: (*broker).create, code: "refused"},
		"large for server": {stream: stream, never: never("a.b", 70_000, "x"), code: "too_large"},
		"large for stream": {stream: small, never: never("a.b", 2_000, "x"), code: "too_large"},
		"topic":            {stream: stream, never: never("a.*", 1, "x"), code: "bad_topic"},
		"header":           {stream: stream, never: never("a.b", 1, "a b"), code: "bad_headers"},
		"command":          {stream: stream, never: never("a.b", 1, "nats-rollup"), code: "bad_headers"},
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
			pool, err := pgxpool.New(t.Context(), servers.Database(t))
			check.Must(t, err)
			t.Cleanup(pool.Close)
			check.Must(t, outbox.Migrate(t.Context(), pool))
			events := row.never
			for i, topic := range []string{"order.created", "order.confirmed", "order.cancelled"} {
				events = append(events, outbox.Event{
					Topic: topic, Aggregate: "order", AggregateID: "a b.c", Version: i + 1, Traceparent: trace,
					Payload: []byte{0, 255, '\n'}, ContentType: "text/x", Headers: map[string]string{"tenant": "ä 7"},
				})
			}
			check.Must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				return outbox.Append(t.Context(), tx, events...)
			}))
			var notSent atomic.Bool
			relay, err := outbox.NewRelay(pool, publish.Func(4, func(ctx context.Context, m publish.Message) error {
				err := publisher{b.js}.publish(ctx, m)
				if errors.Is(err, publish.ErrNotSent) {
					notSent.Store(true)
				}
				return err
			}), outbox.RelayConfig{AppID: "orders"})
			check.Must(t, err)
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error)
			go func() { ended <- relay.Run(ctx) }()
			defer func() { stop(); check.Must(t, <-ended) }()

			state := func(column string) (all string) {
				query := "SELECT string_agg(" + column + "::text, ' ' ORDER BY seq) FROM outbox_status"
				check.Must(t, pool.QueryRow(t.Context(), query).Scan(&all))
				return all
			}
			check.Await(t, "the answer", func() bool {
				if row.code == "not_sent" {
					return notSent.Load()
				}
				return strings.Contains(state("coalesce(failure_code, '')"), row.code)
			})
			if row.mend != nil {
				row.mend(b)
			}
			want := strings.Repeat("failed ", len(row.never)) + "published published published"
			check.Await(t, want, func() bool { return state("status") == want })
			if counts := state("retry_count"); row.code == "not_sent" && counts != "0 0 0" {
				t.Errorf("an outage was counted: %s", counts)
			}
			sent := state("CASE status WHEN 'published' THEN 'outbox.events.' || topic || ' ' || id END")
			if got := b.received(); got != sent {
				t.Errorf("received %s, sent %s", got, sent)
			}
		})
	}
}

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// received returns the subjects and ids in the stream.
func (b *broker) received() string {
	var all []string
	s, err := b.js.Stream(b.t.Context(), stream.Name)
	check.Must(b.t, err)
	for i := range s.CachedInfo().State.LastSeq {
		m, err := s.GetMsg(b.t.Context(), i+1)
		check.Must(b.t, err)
		all = append(all, m.Subject+" "+m.Header.Get(jetstream.MsgIDHeader))
		h := m.Header
		got := fmt.Sprintf("%s %s %s %s %q", h["Content-Type"], h["tenant"], h["traceparent"], h["App-Id"], m.Data)
		if want := "[text/x] [ä 7] [" + trace + `] [orders] "\x00\xff\n"`; got != want {
			b.t.Errorf("received %s, want %s", got, want)
		}
	}
	return strings.Join(all, " ")
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
