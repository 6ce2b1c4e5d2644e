package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/migrations"
)

func TestMain(m *testing.M) {
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	goleak.VerifyTestMain(m)
}

// steps notes what happened, in order.
type steps struct {
	mu    sync.Mutex
	taken []string
}

func (s *steps) note(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, step)
}

// fakeEffect fails where the test wants it to.
type fakeEffect struct {
	*steps
	parse, record, complete func() error
	left                    bool
}

func (f fakeEffect) do(step string, fail func() error) error {
	f.note(step)
	if fail == nil {
		return nil
	}
	return fail()
}

func (f fakeEffect) Parse(m rabbitmq.Message) (string, error) {
	return string(m.Body), f.do("parse", f.parse)
}

func (f fakeEffect) Record(context.Context, *postgres.Tx, uuid.UUID, string) error {
	return f.do("record", f.record)
}

func (f fakeEffect) Complete(context.Context, uuid.UUID) (bool, error) {
	return f.left, f.do("complete", f.complete)
}

// fakeOutlet keeps the copies.
type fakeOutlet struct {
	*steps
	fail   func() error
	copies []rabbitmq.Message
}

func (f *fakeOutlet) Publish(_ context.Context, m rabbitmq.Message) error {
	f.note("copy")
	if f.fail != nil {
		if err := f.fail(); err != nil {
			return err
		}
	}
	f.copies = append(f.copies, m)
	return nil
}

// bench is a consumer on fakes and a real inbox.
type bench struct {
	*testing.T
	steps
	config   Config
	effect   fakeEffect
	outlet   fakeOutlet
	db       *postgres.DB
	registry *prometheus.Registry
}

const window = time.Hour

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, registry: prometheus.NewRegistry()}
	b.effect.steps, b.outlet.steps = &b.steps, &b.steps
	b.db, _ = servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	b.config = Config{
		Queue: "the-queue", Workers: 4, Prefetch: 8, DeadLetters: "dlx", Retries: []string{"short", "long"}, MaxHold: time.Minute,
		Probes: map[string]func(context.Context) error{Database: b.db.Ping, "mail": func(context.Context) error { return nil }},
	}
	return b
}

func (b *bench) consumer() *Consumer[string] {
	return New(b.config, b.db, inbox.New(b.db, window), b.effect, &b.outlet, NewMetrics(b.registry))
}

func (b *bench) message() rabbitmq.Message {
	return rabbitmq.Message{
		ID: uuid.NewString(), Type: "order.created", Exchange: "outbox.events", RoutingKey: "order.created",
		Timestamp: time.Now(), Body: []byte("{}"),
		Headers: map[string]any{"traceparent": "kept", "x-death": "stripped", "CC": "stripped", "BCC": "stripped"},
	}
}

func (b *bench) delivery(m rabbitmq.Message) rabbitmq.Delivery {
	return rabbitmq.Delivery{
		Message: m, Arrived: time.Now(),
		Ack:    func() error { b.note("ack"); return nil },
		Reject: func() error { b.note("reject"); return nil },
	}
}

// deliver handles a message and wants these steps.
func (b *bench) deliver(m rabbitmq.Message, want ...string) {
	b.Helper()
	b.taken = nil
	b.registry = prometheus.NewRegistry()
	b.consumer().deliver(b.Context(), b.delivery(m))
	b.want(want...)
}

func (b *bench) want(want ...string) {
	b.Helper()
	if !slices.Equal(b.taken, want) {
		b.Errorf("steps %v, want %v", b.taken, want)
	}
}

// wantCopy wants one copy of m, there, with these headers and the ones that belong to
// every copy.
func (b *bench) wantCopy(m rabbitmq.Message, exchange string, headers map[string]any) {
	b.Helper()
	if len(b.outlet.copies) != 1 {
		b.Fatalf("%d copies, want one", len(b.outlet.copies))
	}
	got := b.outlet.copies[0]
	if got.ID != m.ID || got.Type != m.Type || got.RoutingKey != m.RoutingKey || !got.Timestamp.Equal(m.Timestamp) ||
		string(got.Body) != string(m.Body) || got.Exchange != exchange {
		b.Errorf("the copy is %+v, of %+v", got, m)
	}
	headers["traceparent"], headers[OriginalExchangeHeader] = "kept", "outbox.events"
	for name, value := range headers {
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
}

// times fails that often.
func times(n int, err error) func() error {
	return func() error {
		if n == 0 {
			return nil
		}
		n--
		return err
	}
}

func always(err error) func() error { return func() error { return err } }

var errFailed = errors.New("it failed")

type permanent struct{ error }

func (permanent) DeadLetterCode() string { return "no-hope" }

type mailAwayError struct{ error }

func (mailAwayError) Dependency() string { return "mail" }

type heldElsewhereError struct{ error }

func (heldElsewhereError) HeldElsewhere() {}
