package rabbitmq_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

func message(exchange, key string) rabbitmq.Message { return to(exchange, key)[0] }

// send publishes through an outlet that must be served.
func send(t *testing.T, outlet *rabbitmq.Outlet, m rabbitmq.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	return outlet.Publish(ctx, m)
}

func TestAnOutletWaitsForASession(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route("#", nil)
	outlet := rabbitmq.NewOutlet()
	m := message(exchange, "a")
	published := make(chan error, 1)
	go func() { published <- send(t, outlet, m) }()

	b.run(b.url, outlet.Serve)
	if err := receive(t, published, "the end of Publish"); err != nil {
		t.Fatal(err)
	}
	if got := b.get(queue).MessageId; got != m.ID {
		t.Errorf("got %s, want %s", got, m.ID)
	}
}

func TestAnOutletThatNothingServesEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	published := make(chan error, 1)
	go func() { published <- rabbitmq.NewOutlet().Publish(ctx, message("", "a")) }()
	cancel(enough)
	if err := receive(t, published, "the end of Publish"); !errors.Is(err, enough) {
		t.Errorf("Publish returned %v", err)
	}
}

func TestAnOutletReturnsAnErrorForAnUnroutableMessage(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, _ := b.route("order.*", nil)
	outlet, sessions := rabbitmq.NewOutlet(), make(chan struct{}, 10)
	b.run(b.url, func(ctx context.Context, s *rabbitmq.Session) error {
		sessions <- struct{}{}
		return outlet.Serve(ctx, s)
	})
	if err := send(t, outlet, message(exchange, "nobody.cares")); err == nil || !strings.Contains(err.Error(), "no queue") {
		t.Errorf("Publish returned %v", err)
	}
	if err := send(t, outlet, message(exchange, "order.created")); err != nil {
		t.Error(err)
	}
	// A queue may have been deleted. The next session can declare it again.
	if len(sessions) != 2 {
		t.Errorf("%d sessions, want a new one after the message that found no queue", len(sessions))
	}
}

func TestAnOutletServesManyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route("order.*", nil)
	outlet := rabbitmq.NewOutlet()
	b.run(b.url, outlet.Serve)

	var publishers sync.WaitGroup
	want := make(chan string, 50)
	for i := range 2 * cap(want) {
		publishers.Go(func() {
			// Every other one cannot be sent: each must get its own answer.
			m := message(exchange, []string{"order.created", strings.Repeat("k", 256)}[i%2])
			err := send(t, outlet, m)
			if good := i%2 == 0; good != (err == nil) {
				t.Errorf("good %t: %v", good, err)
			} else if good {
				want <- m.ID
			}
		})
	}
	publishers.Wait()
	close(want)
	missing := map[string]bool{}
	for id := range want {
		missing[id] = true
	}
	for range len(missing) {
		delete(missing, b.get(queue).MessageId)
	}
	if len(missing) != 0 {
		t.Errorf("%d messages did not arrive", len(missing))
	}
}

func TestAnOutletGoesOnAfterACut(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, _ := b.route("#", nil)
	proxy, url := b.proxy()
	outlet := rabbitmq.NewOutlet()
	b.run(url, outlet.Serve)
	for range 2 {
		// A message that is published during the cut may fail.
		eventually(t, "published", func() bool { return send(t, outlet, message(exchange, "a")) == nil })
		proxy.Cut()
	}
}

func TestAnOutletLeavesAChannelThatClosed(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, _ := b.route("#", nil)
	outlet := rabbitmq.NewOutlet()
	b.run(b.url, outlet.Serve)
	var reason *amqp.Error
	if err := send(t, outlet, message(name(), "a")); !errors.As(err, &reason) || reason.Code != amqp.NotFound {
		t.Fatalf("publishing to no exchange: %v", err)
	}
	if err := send(t, outlet, message(exchange, "a")); err != nil {
		t.Error(err)
	}
}

func TestAnOutletStopsServingWithTheContext(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, _ := b.route("#", nil)
	outlet := rabbitmq.NewOutlet()
	end := b.run(b.url, outlet.Serve)
	if err := send(t, outlet, message(exchange, "a")); err != nil {
		t.Error(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := outlet.Publish(ctx, message("", "a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Publish returned %v", err)
	}
}

// TestP9AnOutletGoesOnAfterARefusal: a full queue ends the channel but not the session. When the
// queue has room again, it gets its messages.
func TestP9AnOutletGoesOnAfterARefusal(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, full := b.route("full", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	room := b.queue(nil)
	b.withChannel(func(c *amqp.Channel) error { return c.QueueBind(room, "room", exchange, false, nil) })
	outlet, sessions := rabbitmq.NewOutlet(), make(chan struct{}, 10)
	channels := b.countingProxy()
	b.run(channels.url, func(ctx context.Context, s *rabbitmq.Session) error {
		sessions <- struct{}{}
		return outlet.Serve(ctx, s)
	})
	eventually(t, "the queue is full", func() bool { return send(t, outlet, message(exchange, "full")) != nil })
	if err := send(t, outlet, message(exchange, "room")); err != nil {
		t.Errorf("another queue's message: %v", err)
	}
	b.withChannel(func(c *amqp.Channel) error { _, err := c.QueuePurge(full, false); return err })
	eventually(t, "the queue takes messages again", func() bool { return send(t, outlet, message(exchange, "full")) == nil })
	if n := channels.opened.Load(); len(sessions) != 1 || n < 2 {
		t.Errorf("%d channels in %d sessions, want a new channel, and one session", n, len(sessions))
	}
}
