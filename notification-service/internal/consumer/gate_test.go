package consumer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
)

// mailServer is away until it is told otherwise.
type mailServer struct {
	back  atomic.Bool
	asked chan struct{}
}

func (m *mailServer) probe(context.Context) error {
	select {
	case m.asked <- struct{}{}:
	default:
	}
	if m.back.Load() {
		return nil
	}
	return errFailed
}

func (m *mailServer) send() error {
	if m.back.Load() {
		return nil
	}
	return mailAwayError{errFailed}
}

func (b *bench) withMailServer() *mailServer {
	m := &mailServer{asked: make(chan struct{}, 1)}
	b.config.Probes["mail"], b.effect.complete = m.probe, m.send
	return m
}

// TestMessagesWaitWhileWhatTheyNeedIsAway: nothing is spent, nothing is copied, and
// work goes on by itself.
func TestMessagesWaitWhileWhatTheyNeedIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := b.withMailServer()
	queue := &fakeQueue{}
	for range 6 {
		queue.add(b.delivery(b.message()))
	}
	c := b.consumer()
	c.trusted.Store(true)
	ran := make(chan error, 1)
	go func() { ran <- c.Run(t.Context(), queue) }()
	for range 3 {
		<-server.asked
	}
	if got := testutil.ToFloat64(c.metrics.gateClosed.WithLabelValues("mail")); got != 1 {
		t.Errorf("consumer_gate_closed is %v", got)
	}
	server.back.Store(true)
	if err := <-ran; !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Error(err)
	}
	if n := b.count("ack"); n != 6 || b.count("copy") != 0 {
		t.Errorf("%d acks and %d copies, want 6 acks and no copies", n, b.count("copy"))
	}
	if got := testutil.ToFloat64(c.metrics.gateClosed.WithLabelValues("mail")); got != 0 {
		t.Errorf("consumer_gate_closed is %v afterwards", got)
	}
}

// TestWhatADependencyThatAnswersIsBlamedFor: then it is the message's own trouble, and
// the others do not wait for it.
func TestWhatADependencyThatAnswersIsBlamedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.effect.complete = times(maxBlames, mailAwayError{errFailed})
	c := b.consumer()
	c.deliver(t.Context(), b.delivery(b.message()))
	if b.count("copy") != 0 || b.count("ack") != 1 {
		t.Errorf("steps %v: a moment's trouble is no reason to put a message aside", b.taken)
	}
	b.effect.complete = always(mailAwayError{errFailed})
	m := b.message()
	c = New(b.config, b.db, c.inbox, b.effect, &b.outlet, c.metrics)
	c.deliver(t.Context(), b.delivery(m))
	b.wantCopy(m, "short", map[string]any{RetryCountHeader: int64(1)})
	if !c.dependencies["mail"].gate.IsOpen() {
		t.Error("the gate is closed")
	}
}

func TestWhatIsHeldTooLongIsPutAsideAndSpendsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withMailServer()
	m := b.message()
	m.Headers[RetryCountHeader] = int64(1)
	d := b.delivery(m)
	d.Arrived = time.Now().Add(-b.config.MaxHold + 100*time.Millisecond)
	if !b.consumer().deliver(t.Context(), d) {
		t.Error("the broker was told nothing")
	}
	b.wantCopy(m, "long", map[string]any{RetryCountHeader: int64(1)})
}

func TestP12ShutdownEndsAHoldWithoutAnAck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := b.withMailServer()
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-server.asked; stop() }()
	if b.consumer().deliver(ctx, b.delivery(b.message())) {
		t.Error("the broker was told something")
	}
	b.want("parse", "record", "complete")
}

// TestADatabaseThatIsAwayIsNoMessagesFault connects to a port that nobody listens at.
func TestADatabaseThatIsAwayIsNoMessagesFault(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db, err := postgres.Open(t.Context(), "postgres://postgres@127.0.0.1:1/", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	ctx, stop := context.WithCancel(t.Context())
	b.db, b.config.Probes[Database] = db, func(ctx context.Context) error {
		defer stop() // once it is asked: the gate closes, and the wait ends
		return db.Ping(ctx)
	}
	c := b.consumer()
	if c.deliver(ctx, b.delivery(b.message())) || c.dependencies[Database].gate.IsOpen() {
		t.Error("the database is not blamed")
	}
	b.want("parse")
}

func (b *bench) count(step string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.taken {
		if s == step {
			n++
		}
	}
	return n
}
