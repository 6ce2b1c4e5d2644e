package main

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
	"example.com/transactional-outbox/test/servers"
)

// longest limits each wait.
const longest = 30 * time.Second

// TestTheConsumerGetsTheEvent requires that an event has the same id, type, headers and fields as
// those of the other designs. The event of a refused change must not be published.
func TestTheConsumerGetsTheEvent(t *testing.T) {
	t.Parallel()
	for name, open := range outboxes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), longest)
			defer cancel()
			s := newShop(t)
			key := "peers." + rand.Text()
			deliveries := consume(t, s, key)
			o, err := open(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			running, stop := context.WithCancel(ctx)
			defer func() { stop(); o.stop() }()
			if err := o.start(running); err != nil {
				t.Fatal(err)
			}

			placed := shop.Event{ID: uuid.NewString(), Key: key, OrderID: uuid.NewString(), Version: 1, Email: "ada@example.com"}
			refused, confirmed, cancelled := placed, placed, placed
			refused.ID, refused.OrderID = uuid.NewString(), uuid.NewString() // the address is used
			confirmed.ID, confirmed.Version = uuid.NewString(), 2
			cancelled.ID, cancelled.Version = uuid.NewString(), 3
			for _, e := range []shop.Event{placed, refused, confirmed, cancelled} {
				if err := change(ctx, s, o, e); (err != nil) != (e == refused) {
					t.Fatalf("changing %+v: %v", e, err)
				}
				if e != refused {
					requireMessage(ctx, t, deliveries, e)
				}
			}
		})
	}
}

// requireMessage waits for the next message, which must be that of e.
func requireMessage(ctx context.Context, t *testing.T, deliveries <-chan amqp.Delivery, e shop.Event) {
	t.Helper()
	var d amqp.Delivery
	select {
	case d = <-deliveries:
	case <-ctx.Done():
		t.Fatalf("%+v has not arrived", e)
	}
	if got, err := shop.Read(d); err != nil || got != e {
		t.Fatalf("the event is %+v (%v), want %+v", got, err, e)
	}
	want := shop.Message(e)
	if d.Type != want.Type || d.ContentType != want.ContentType || d.DeliveryMode != want.DeliveryMode || d.Timestamp.IsZero() {
		t.Errorf("the message has the type %q and the headers %q, %d and %v", d.Type, d.ContentType, d.DeliveryMode, d.Timestamp)
	}
}

// TestRiversWorkerDetectsAReturnedMessage requires that a message that reaches no queue is an
// error, and that the next one is not.
func TestRiversWorkerDetectsAReturnedMessage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	p := &publisher{url: s.AMQPURL, channels: 2}
	t.Cleanup(func() { _ = p.current.conn.Close() })
	m := message{ID: uuid.NewString(), Key: "peers." + rand.Text(), Body: []byte("{}")}
	for range 3 { // more than there are channels
		if err := p.publish(t.Context(), m); !errors.Is(err, errReturned) {
			t.Fatalf("without a queue: %v, want %v", err, errReturned)
		}
	}
	consume(t, s, m.Key)
	for range 3 {
		if err := p.publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func newShop(t *testing.T) *shop.Shop {
	t.Helper()
	db, err := pgxpool.New(t.Context(), servers.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(t.Context(), shop.Schema); err != nil {
		t.Fatal(err)
	}
	return &shop.Shop{DB: db, AMQPURL: servers.BrokerURL(t)}
}

// consume binds a queue of the test's own.
func consume(t *testing.T, s *shop.Shop, key string) <-chan amqp.Delivery {
	t.Helper()
	conn, channel, err := shop.OpenChannel(s.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = channel.QueueBind(queue.Name, key, shop.Exchange, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := channel.Consume(queue.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}
