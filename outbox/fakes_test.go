package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/source"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// testConfig has small limits, so that tests can count by hand.
var testConfig = RelayConfig{
	DeadLetters: "dlx", Workers: 1, BatchSize: 3, PollInterval: time.Second, Lease: time.Minute,
	ConfirmTimeout: 10 * time.Second, MaxAttempts: 3, RetryBase: time.Second, RetryCap: time.Minute,
	Logger: slog.New(slog.DiscardHandler),
}

// fakeOutbox returns pending events to claims, and records what became of them.
type fakeOutbox struct {
	mu       sync.Mutex
	pending  []uuid.UUID
	markErr  error                     // what the next MarkPublished returns
	claims   []int                     // the limit of each claim
	claimed  map[uuid.UUID][]uuid.UUID // by token
	became   map[uuid.UUID]string
	claimErr error

	topics map[uuid.UUID]string // of the events that are not order.created
	probes map[uuid.UUID]bool   // the events that have waited for a queue
	back   []string             // the topics whose events were brought back

	onClaim   func() // called by each claim
	leaseLost bool   // whether the lease is lost when an event is released or failed
}

func newFakeOutbox(events int) *fakeOutbox {
	f := &fakeOutbox{claimed: map[uuid.UUID][]uuid.UUID{}, became: map[uuid.UUID]string{}}
	for range events {
		f.pending = append(f.pending, uuid.New())
	}
	return f
}

func (f *fakeOutbox) Claim(ctx context.Context, _ string, limit int, _ time.Duration) (store.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onClaim != nil {
		f.onClaim()
	}
	if ctx.Err() != nil {
		return store.Claim{}, ctx.Err()
	}
	f.claims = append(f.claims, limit)
	if f.claimErr != nil {
		return store.Claim{}, f.claimErr
	}
	n := min(limit, len(f.pending))
	c := store.Claim{Token: uuid.New(), More: n == limit}
	for _, id := range f.pending[:n] {
		e := store.Event{ID: id, Topic: "order.created"}
		if f.probes[id] {
			e.FailureCode = codeUnroutable
		}
		if key, found := f.topics[id]; found {
			e.Topic = key
		}
		c.Events = append(c.Events, e)
	}
	f.claimed[c.Token], f.pending = f.pending[:n], f.pending[n:]
	return c, nil
}

func (f *fakeOutbox) MarkPublished(ctx context.Context, _ uuid.UUID, ids []uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := f.markErr; err != nil {
		f.markErr = nil
		return err
	}
	for _, id := range ids {
		f.became[id] = "published"
	}
	return nil
}

func (f *fakeOutbox) Overtake(_ context.Context, _ uuid.UUID, ids []uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.became[id] = "overtaken"
	}
	return nil
}

func (f *fakeOutbox) Reschedule(_ context.Context, _ uuid.UUID, failures []store.Failure) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range failures {
		f.became[s.ID] = "later"
	}
	return len(failures), nil
}

func (f *fakeOutbox) RetryUnroutable(_ context.Context, key string, _ int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = append(f.back, key)
	return 0, nil
}

func (f *fakeOutbox) Release(_ context.Context, token uuid.UUID) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.claimed[token] {
		if f.became[id] == "" {
			f.became[id] = "released"
		}
	}
	return !f.leaseLost, nil
}

func (f *fakeOutbox) Fail(_ context.Context, _ uuid.UUID, failure store.Failure) (time.Time, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaseLost {
		return time.Time{}, 0, nil
	}
	f.became[failure.ID] = "failed"
	return time.Now(), 1, nil
}

func (f *fakeOutbox) append() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, uuid.New())
}

func (f *fakeOutbox) count(became string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.became {
		if b == became {
			n++
		}
	}
	return n
}

// fakeBroker answers each batch with its function.
type fakeBroker func(messages []publish.Message) []publish.Result

func (f fakeBroker) NewPublisher(int) (publish.Publisher, error) { return f, nil }
func (f fakeBroker) Close()                                      {}
func (f fakeBroker) Unblocked(context.Context) error             { return nil }
func (f fakeBroker) Publish(m []publish.Message, _ time.Duration) []publish.Result {
	return f(m)
}

func testRelay(from source.Events) *Relay { return relayWith(testConfig, from) }

func relayWith(c RelayConfig, from source.Events) *Relay {
	return newRelay(from, "rabbitmq", "events", c.withDefaults())
}

// start runs r. stop ends it and wants no error.
func start(t *testing.T, r *Relay, broker publish.Session) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.publishOn(ctx, broker) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func answerAll(outcome publish.Outcome) fakeBroker {
	return func(messages []publish.Message) []publish.Result {
		results := make([]publish.Result, len(messages))
		for i := range results {
			results[i] = publish.Result{Outcome: outcome, Err: errors.New("the reason")}
		}
		return results
	}
}
