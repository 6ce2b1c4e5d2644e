// Command nats saves an order and publishes its events to NATS JetStream. Only the function publish
// is about NATS; the rest is the same for each broker.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net"
	"net/textproto"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	if stop(); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	pool, err := pgxpool.New(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "DATABASE_URL is not set"))
	if err != nil {
		return err
	}
	defer pool.Close()
	nc, js, err := connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL))
	if err != nil {
		return err
	}
	defer nc.Close()
	_, err = js.CreateStream(ctx, stream) // an existing one must have the same settings
	onlyNew := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}
	subscriber, err2 := js.CreateConsumer(ctx, stream.Name, onlyNew)
	relay, err3 := outbox.NewRelay(pool, publish.Func(publisher{js}.publish, publish.FuncConfig{OneDestination: true}), outbox.RelayConfig{AppID: "orders"})
	_, err4 := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, version int NOT NULL)")
	if err := errors.Join(err, err2, err3, err4, outbox.Migrate(ctx, pool)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return relay.Run(ctx) })
	group.Go(func() error {
		defer stop() // ends the relay
		id := rand.Text()
		for i, topic := range []string{"order.created", "order.confirmed"} {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return saveOrder(ctx, tx, id, i+1, topic) })
			if err != nil {
				return err
			}
			relay.Wake() // optional: published within milliseconds instead of at the next poll
		}
		return receive(ctx, subscriber, id)
	})
	return group.Wait()
}

const saveSQL = "INSERT INTO orders (id, version) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET version = $2"

func saveOrder(ctx context.Context, tx pgx.Tx, id string, version int, topic string) error {
	if _, err := tx.Exec(ctx, saveSQL, id, version); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Topic: topic, Aggregate: "order", AggregateID: id, Version: version,
		Payload: fmt.Appendf(nil, `{"order":%q}`, id),
	})
}

// receive prints what a subscriber gets, until both messages of the order have arrived.
func receive(ctx context.Context, subscriber jetstream.Consumer, order string) error {
	for received := 0; received < 2; {
		m, err := subscriber.Next(jetstream.FetchContext(ctx))
		if err != nil {
			return fmt.Errorf("%d of 2 messages of order %s have arrived: %w", received, order, err)
		}
		fmt.Printf("%s  %s  message %s\n", m.Subject(), m.Data(), m.Headers().Get(jetstream.MsgIDHeader))
		if err := m.Ack(); err != nil {
			return err
		}
		if strings.Contains(string(m.Data()), order) {
			received++
		}
	}
	return nil
}

const prefix = "outbox.events." // of the subjects

// A full stream refuses what is new. By default it drops the oldest message, also if nobody has
// read it.
var stream = jetstream.StreamConfig{
	Name: "OUTBOX_EVENTS", Subjects: []string{prefix + ">"}, Discard: jetstream.DiscardNew,
}

// connect returns a connection that reconnects for ever. While it is lost, it keeps no messages: it
// would send them later, after newer ones. A server that is silent for 10 s is lost as well, and one
// that reads nothing for 2 s: until then, a write blocks whoever publishes or closes.
func connect(url string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1),
		nats.PingInterval(5*time.Second), nats.FlusherTimeout(2*time.Second))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

type publisher struct{ jetstream.JetStream }

// publish returns nil when the stream has stored the message. Any other answer is an error, which
// tells the relay what to do: see [publish.Func].
func (p publisher) publish(ctx context.Context, m publish.Message) error {
	msg, err := convert(m)
	if err != nil {
		return err
	}
	// An answer takes milliseconds. The client would still wait after the connection was lost.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// Without retries of the client: the relay retries, and keeps the order.
	_, err = p.PublishMsg(ctx, msg, jetstream.WithMsgID(m.ID), jetstream.WithRetryAttempts(0))
	tooLargeForStream := &jetstream.APIError{ErrorCode: 10054}
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse): // no stream has the subject, or NATS is still starting
		return fmt.Errorf("%w: %w", publish.ErrReturned, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed): // no connection
		return fmt.Errorf("%w: %w", publish.ErrNotSent, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, new(net.Error)):
		// No answer, or a write that failed: the stream may have it, and would ignore a repeat.
		return fmt.Errorf("%w: %w", publish.ErrTimeout, err)
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, tooLargeForStream): // a repeat would be too large, too
		return fmt.Errorf("%w: %w", publish.ErrTooLarge, err)
	case errors.Is(err, nats.ErrBadHeaderMsg): // a name with a space, for example
		return fmt.Errorf("%w: %w", publish.ErrBadHeaders, err)
	}
	return err // the stream refuses it, for example because it is full
}

// convert returns an error for what NATS would not deliver as it is. A retry would not help.
func convert(m publish.Message) (*nats.Msg, error) {
	for token := range strings.SplitSeq(m.Topic, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n\f") {
			return nil, fmt.Errorf("%w: %q is no subject of NATS", publish.ErrBadTopic, m.Topic)
		}
	}
	header := nats.Header{
		"Content-Type": {m.ContentType}, "App-Id": {m.AppID}, "Timestamp": {m.Timestamp.Format(time.RFC3339Nano)},
	}
	for name, value := range m.Headers {
		text := fmt.Sprint(value)
		_, taken := header[name]
		// "Nats-Rollup: all" would delete what the stream has.
		command := strings.HasPrefix(strings.ToLower(name), "nats-")
		if taken || command || textproto.TrimString(text) != text || strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("%w: NATS would not deliver %q unchanged", publish.ErrBadHeaders, name)
		}
		header.Set(name, text)
	}
	return &nats.Msg{Subject: prefix + m.Topic, Header: header, Data: m.Body}, nil
}
