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
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/internal/batch"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/notification-service/migrations"
)

func TestMain(m *testing.M) {
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	goleak.VerifyTestMain(m)
}

// bench is a consumer on fakes.
type bench struct {
	*testing.T
	steps
	config   Config
	effect   fakeEffect
	outlet   fakeOutlet
	db       *postgres.DB
	inMemory bool // in a bubble, where an inbox in memory takes the place of the database
	registry *prometheus.Registry
	consumer *Consumer
	stop     func() error // asks the consumer to end, and returns when it has
}

const window = time.Hour

// newBench has a real inbox.
func newBench(t *testing.T) *bench {
	t.Helper()
	db, _ := servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	return benchOn(t, db)
}

func benchOn(t *testing.T, db *postgres.DB) *bench {
	t.Helper()
	b := &bench{T: t, registry: prometheus.NewRegistry(), db: db}
	b.effect.steps, b.outlet.steps = &b.steps, &b.steps
	b.effect.states = map[uuid.UUID]notification.Status{}
	b.config = Config{
		Queue: "the-queue", Workers: 4, BatchSize: 10, Prefetch: 8, DeadLetters: "dlx", Retries: []string{"short", "long"}, MaxHold: 10 * time.Minute,
		Probes: map[string]func(context.Context) error{
			Database: func(context.Context) error { return errFailed }, "mail": func(context.Context) error { return errFailed },
		},
	}
	return b
}

// inBubble has an inbox in memory, and virtual time.
func inBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away, err := postgres.Open(t.Context(), "postgres://postgres@127.0.0.1:1/", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer away.Close()
		b := benchOn(t, away)
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
func (b *bench) begin() *Consumer {
	b.Helper()
	b.consumer = New(b.config, b.db, inbox.New(b.db, window), &b.effect, &b.outlet, NewMetrics(b.registry))
	if b.inMemory {
		seen := memory{consumer: b.consumer, seen: map[uuid.UUID]bool{}}
		b.consumer.records = batch.New(b.config.BatchSize, seen.record)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	c := b.consumer
	go func() {
		ended <- c.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}()
	b.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	if !b.inMemory {
		b.Cleanup(func() { _ = b.stop() })
	}
	return b.consumer
}

// memory is an inbox without a database.
type memory struct {
	consumer *Consumer
	mu       sync.Mutex
	seen     map[uuid.UUID]bool
}

func (s *memory) record(ctx context.Context, batch []*message) []recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]recorded, len(batch))
	verdicts := make([]inbox.Verdict, len(batch))
	for i, m := range batch {
		verdicts[i] = inbox.First
		if s.seen[m.id] {
			verdicts[i] = inbox.Repeat
		}
	}
	if err := s.consumer.recordEffects(ctx, nil, batch, verdicts, results); err != nil {
		return failed(batch, err)
	}
	for _, m := range batch {
		s.seen[m.id] = true
	}
	return results
}

func aMessage() rabbitmq.Message {
	return rabbitmq.Message{
		ID: uuid.NewString(), Type: "order.created", Exchange: "outbox.events", RoutingKey: "order.created",
		Timestamp: time.Now(), Body: []byte("{}"),
		Headers: map[string]any{"traceparent": "kept", "x-death": "stripped", "CC": "stripped", "BCC": "stripped"},
	}
}

func (b *bench) delivery(m rabbitmq.Message) rabbitmq.Delivery {
	does := func(step string) func() error { return func() error { b.note(step); return nil } }
	return rabbitmq.Delivery{
		Message: m, Size: len(m.Body), Arrived: time.Now(),
		Ack: does("ack"), Reject: does("rejected"), Requeue: does("requeued"),
	}
}

// deliver handles a message to its end.
func (b *bench) deliver(ctx context.Context, d rabbitmq.Delivery) {
	<-b.consumer.start(ctx, d).done
	b.consumer.running.Wait()
}

// want handles a message of a new consumer and wants these steps.
func (b *bench) want(m rabbitmq.Message, want ...string) {
	b.Helper()
	b.taken = nil
	b.deliver(b.Context(), b.delivery(m))
	if !slices.Equal(b.taken, want) {
		b.Errorf("steps %v, want %v", b.taken, want)
	}
}

// wantCopy wants one copy of m, there, with these headers and the ones that belong to
// every copy.
func (b *bench) wantCopy(m rabbitmq.Message, exchange string, headers map[string]any) rabbitmq.Message {
	b.Helper()
	if n := len(b.outlet.copies); n != 1 {
		b.Fatalf("%d copies, want one", n)
	}
	got := b.outlet.copies[0]
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
	b.outlet.copies = nil
	return got
}

// inBubbleOf is inBubble for a subtest.
func inBubbleOf(t *testing.T, name string, test func(b *bench)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

func idOf(m rabbitmq.Message) uuid.UUID { return uuid.MustParse(m.ID) }
