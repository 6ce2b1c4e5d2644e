package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func (f fakeEffect) Complete(context.Context, uuid.UUID) error { return f.do("complete", f.complete) }

// fakeDeadLetters keeps the copies.
type fakeDeadLetters struct {
	*steps
	fail   func() error
	copies []rabbitmq.Message
}

func (f *fakeDeadLetters) Publish(_ context.Context, m rabbitmq.Message) error {
	f.note("bury")
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
	effect      fakeEffect
	deadLetters fakeDeadLetters
	db          *postgres.DB
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t}
	b.effect.steps, b.deadLetters.steps = &b.steps, &b.steps
	b.db, _ = servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	return b
}

func (b *bench) message() rabbitmq.Message {
	return rabbitmq.Message{
		ID: uuid.NewString(), Type: "order.created", Exchange: "outbox.events", RoutingKey: "order.created", Body: []byte("{}"),
		Headers: map[string]any{"traceparent": "kept", "x-death": "stripped", "CC": "stripped", "BCC": "stripped"},
	}
}

func (b *bench) delivery(m rabbitmq.Message) rabbitmq.Delivery {
	return rabbitmq.Delivery{
		Message: m,
		Ack:     func() error { b.note("ack"); return nil },
		Reject:  func() error { b.note("reject"); return nil },
	}
}

// deliver handles a message and wants these steps.
func (b *bench) deliver(ctx context.Context, m rabbitmq.Message, want ...string) {
	b.Helper()
	b.taken = nil
	c := New(Config{Workers: 1, DeadLetterExchange: "dlx"}, b.db, b.effect, &b.deadLetters)
	c.deliver(ctx, b.delivery(m))
	if !slices.Equal(b.taken, want) {
		b.Errorf("steps %v, want %v", b.taken, want)
	}
}

// once fails the first time.
func once(err error) func() error {
	failed := false
	return func() error {
		if failed {
			return nil
		}
		failed = true
		return err
	}
}

func always(err error) func() error { return func() error { return err } }

var errAway = errors.New("what it needs is away")

type permanent struct{ error }

func (permanent) DeadLetterCode() string { return "no-hope" }

func TestAMessageIsAcknowledgedAfterItsEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.deliver(t.Context(), b.message(), "parse", "record", "complete", "ack")
}

func TestP5ARepeatCompletesAndDoesNotRecordAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.message()
	b.deliver(t.Context(), m, "parse", "record", "complete", "ack")
	b.deliver(t.Context(), m, "parse", "complete", "ack")
}

func TestAMessageIsHeldWhileWhatItNeedsIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.effect.record, b.effect.complete = once(errAway), once(errAway)
	b.deliver(t.Context(), b.message(), "parse", "record", "parse", "record", "complete", "parse", "complete", "ack")
}

func TestP9ADeadLetterIsCopiedBeforeItsAck(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*bench){
		"what cannot be parsed":         func(b *bench) { b.effect.parse = always(errors.New("no JSON")) },
		"what can never be recorded":    func(b *bench) { b.effect.record = always(permanent{errAway}) },
		"what can never be completed":   func(b *bench) { b.effect.complete = always(permanent{errAway}) },
		"a wrapped permanent error too": func(b *bench) { b.effect.complete = always(errors.Join(errAway, permanent{errAway})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			fail(b)
			// The first copy does not get through: the message is held, and not acknowledged.
			b.deadLetters.fail = once(errAway)
			m := b.message()
			c := New(Config{Workers: 1, DeadLetterExchange: "dlx"}, b.db, b.effect, &b.deadLetters)
			c.deliver(t.Context(), b.delivery(m))
			if n := len(b.taken); n < 3 || b.taken[n-1] != "ack" || b.taken[n-2] != "bury" || len(b.deadLetters.copies) != 1 {
				t.Errorf("steps %v with %d copies, want one copy and then the ack", b.taken, len(b.deadLetters.copies))
			}
			wantCopyOf(t, m, b.deadLetters.copies[0])
		})
	}
}

func wantCopyOf(t *testing.T, m, dead rabbitmq.Message) {
	t.Helper()
	if dead.ID != m.ID || dead.Type != m.Type || dead.RoutingKey != m.RoutingKey || string(dead.Body) != string(m.Body) || dead.Exchange != "dlx" {
		t.Errorf("the copy is %+v, of %+v", dead, m)
	}
	if dead.Headers["traceparent"] != "kept" || dead.Headers["original-exchange"] != m.Exchange || dead.Headers["failure-reason"] == "" {
		t.Errorf("headers %v", dead.Headers)
	}
	for _, name := range []string{"x-death", "CC", "BCC"} {
		if _, kept := dead.Headers[name]; kept {
			t.Errorf("the header %s was carried over", name)
		}
	}
	if m.Headers["x-death"] != "stripped" {
		t.Error("the headers of the original were changed")
	}
}

func TestP9AMessageWithoutAUsableIDIsADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.message()
	m.ID = "42"
	b.deliver(t.Context(), m, "bury", "ack")
}

func TestP12ShutdownEndsAHoldWithoutAnAck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	b.effect.complete = func() error { stop(); return errAway }
	b.deliver(ctx, b.message(), "parse", "record", "complete")
}

func TestP12ShutdownFinishesTheMessageInHand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	b.effect.record = func() error { stop(); return nil }
	b.deliver(ctx, b.message(), "parse", "record", "complete", "ack")
}

// TestP9WhatNobodyCouldPublishIsRejected: a copy of it would never get through.
func TestP9WhatNobodyCouldPublishIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.effect.parse = always(errors.New("no JSON"))
	b.deadLetters.fail = always(rabbitmq.ErrTooLarge)
	b.deliver(t.Context(), b.message(), "parse", "bury", "reject")
}

// fakeDeliveries gives what it has and then ends.
type fakeDeliveries struct {
	mu   sync.Mutex
	left []rabbitmq.Delivery
}

func (f *fakeDeliveries) Next(context.Context) (rabbitmq.Delivery, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.left) == 0 {
		return rabbitmq.Delivery{}, rabbitmq.ErrCancelled
	}
	d := f.left[0]
	f.left = f.left[1:]
	return d, nil
}

func TestRunHandlesEveryDeliveryAndSaysThatNoMoreCome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var deliveries fakeDeliveries
	for range 20 {
		deliveries.left = append(deliveries.left, b.delivery(b.message()))
	}
	c := New(Config{Workers: 4, DeadLetterExchange: "dlx"}, b.db, b.effect, &b.deadLetters)
	if err := c.Run(t.Context(), &deliveries); !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Errorf("error %v, want %v", err, rabbitmq.ErrCancelled)
	}
	acks := 0
	for _, step := range b.taken {
		if step == "ack" {
			acks++
		}
	}
	if acks != 20 {
		t.Errorf("%d acks, want 20", acks)
	}
}
