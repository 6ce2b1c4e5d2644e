package consumer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/batch"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestMain(m *testing.M) {
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	goleak.VerifyTestMain(m)
}

// fixture is a consumer with fakes.
type fixture struct {
	*testing.T
	steps
	config    Config
	effect    fakeEffect
	publisher fakePublisher
	db        *postgres.DB
	inMemory  bool // in a bubble, where an inbox in memory takes the place of the database
	registry  *prometheus.Registry
	consumer  *Consumer
	shutdown  func()       // begins the shutdown
	stop      func() error // shuts down, and returns when Run has returned
}

const window = time.Hour

// newFixture has a real inbox.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	return fixtureOn(t, db)
}

func fixtureOn(t *testing.T, db *postgres.DB) *fixture {
	t.Helper()
	b := &fixture{T: t, registry: prometheus.NewRegistry(), db: db}
	b.effect.steps, b.publisher.steps = &b.steps, &b.steps
	b.effect.states = map[uuid.UUID]notification.Status{}
	b.config = Config{
		Queue: "the-queue", Workers: 4, BatchSize: 10, Prefetch: 8, DeadLetterExchange: "dlx", RequeueExchange: "requeue", RetryExchanges: []string{"short", "long"}, MaxHold: 10 * time.Minute,
		Probes: map[string]func(context.Context) error{
			Database: func(context.Context) error { return errFailed }, "mail": func(context.Context) error { return errFailed },
		},
	}
	return b
}

// inBubble has an inbox in memory, and virtual time.
func inBubble(t *testing.T, test func(b *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		away, err := postgres.Open(t.Context(), "postgres://postgres@127.0.0.1:1/", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer away.Close()
		b := fixtureOn(t, away)
		b.inMemory = true
		b.begin()
		synctest.Wait()
		test(b)
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
}

// begin starts the consumer, without a session.
func (b *fixture) begin() *Consumer {
	b.Helper()
	b.consumer = New(b.config, b.db, inbox.New(b.db, window), &b.effect, &b.publisher, NewMetrics(b.registry))
	if b.inMemory {
		seen := inMemoryInbox{consumer: b.consumer, seen: map[uuid.UUID]bool{}}
		b.consumer.records = batch.New(b.config.BatchSize, seen.record)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	c := b.consumer
	go func() {
		ended <- c.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}()
	b.shutdown = cancel
	b.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	if !b.inMemory {
		b.Cleanup(func() { _ = b.stop() })
	}
	return b.consumer
}

// inMemoryInbox is an inbox without a database.
type inMemoryInbox struct {
	consumer *Consumer
	mu       sync.Mutex
	seen     map[uuid.UUID]bool
}

func (s *inMemoryInbox) record(ctx context.Context, batch []*delivery) []recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]recorded, len(batch))
	verdicts := make([]inbox.Result, len(batch))
	for i, m := range batch {
		verdicts[i] = inbox.First
		if s.seen[m.id] {
			verdicts[i] = inbox.Duplicate
		}
	}
	if err := s.consumer.recordEffects(ctx, nil, batch, verdicts, results); err != nil {
		return failAll(batch, err)
	}
	for _, m := range batch {
		s.seen[m.id] = true
	}
	return results
}

func newMessage() rabbitmq.Message {
	return rabbitmq.Message{
		ID: uuid.NewString(), Type: "order.created", Exchange: "outbox.events", RoutingKey: "order.created",
		Timestamp: time.Now(), Body: []byte("{}"),
		Headers: map[string]any{"traceparent": "kept", "x-death": "stripped", "CC": "stripped", "BCC": "stripped"},
	}
}

func (b *fixture) delivery(m rabbitmq.Message) rabbitmq.Delivery {
	does := func(step string) func() error { return func() error { b.note(step); return nil } }
	return rabbitmq.Delivery{
		Message: m, Size: len(m.Body), Arrived: time.Now(),
		Ack: does("ack"), Reject: does("rejected"), Requeue: does("requeued"),
	}
}

// deliver handles a message until it is done.
func (b *fixture) deliver(ctx context.Context, d rabbitmq.Delivery) {
	<-b.consumer.start(ctx, d).done
	b.consumer.running.Wait()
}

// want handles a message and wants these steps.
func (b *fixture) want(m rabbitmq.Message, want ...string) {
	b.Helper()
	b.done = nil
	b.deliver(b.Context(), b.delivery(m))
	if !slices.Equal(b.done, want) {
		b.Errorf("steps %v, want %v", b.done, want)
	}
}

// wantCopy wants one copy of m in exchange, with these headers and those of every copy.
func (b *fixture) wantCopy(m rabbitmq.Message, exchange string, headers map[string]any) rabbitmq.Message {
	b.Helper()
	if n := len(b.publisher.copies); n != 1 {
		b.Fatalf("%d copies, want one", n)
	}
	got := b.publisher.copies[0]
	if got.ID != m.ID || got.Type != m.Type || got.RoutingKey != m.RoutingKey || !got.Timestamp.Equal(m.Timestamp) ||
		string(got.Body) != string(m.Body) || got.Exchange != exchange {
		b.Errorf("the copy is %+v, of %+v", got, m)
	}
	all := maps.Clone(headers)
	all["traceparent"], all[OriginalExchangeHeader] = "kept", "outbox.events"
	for name, value := range all {
		if got.Headers[name] != value {
			b.Errorf("header %s: %v, want %v", name, got.Headers[name], value)
		}
	}
	if got.Headers[FailureReasonHeader] == "" {
		b.Error("no reason")
	}
	for _, name := range []string{"x-death", "CC", "BCC"} {
		if _, kept := got.Headers[name]; kept {
			b.Errorf("the header %s was carried over", name)
		}
	}
	if m.Headers["x-death"] != "stripped" {
		b.Error("the headers of the original were changed")
	}
	b.publisher.copies = nil
	return got
}

// wantCopyOf wants one copy of m in exchange, and returns it.
func (b *fixture) wantCopyOf(m rabbitmq.Message, exchange string) rabbitmq.Message {
	b.Helper()
	if n := len(b.publisher.copies); n != 1 || b.publisher.copies[0].Exchange != exchange || b.publisher.copies[0].ID != m.ID {
		b.Fatalf("the copies are %+v, want one in %s", b.publisher.copies, exchange)
	}
	got := b.publisher.copies[0]
	b.publisher.copies = nil
	return got
}

// inBubbleNamed is inBubble for a subtest.
func inBubbleNamed(t *testing.T, name string, test func(b *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		inBubble(t, test)
	})
}

func idOf(m rabbitmq.Message) uuid.UUID { return uuid.MustParse(m.ID) }
