package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// testConfig has small limits, so that tests can count by hand.
var testConfig = RelayConfig{
	Workers: 1, Window: 3, PollInterval: time.Second, Lease: time.Minute,
	ConfirmTimeout: 10 * time.Second, RetryBase: time.Second, RetryCap: time.Minute,
	Logger: slog.New(slog.DiscardHandler),
}

// fakeOutbox returns pending events to claims, and records what became of them.
type fakeOutbox struct {
	mu        sync.Mutex
	pending   []store.Event
	probes    []store.Event // for claims of probes
	tried     []int         // the limit of each claim of probes
	claims    []int         // the limit of each claim
	renewed   []uuid.UUID
	claimed   map[uuid.UUID][]uuid.UUID // by token
	became    map[uuid.UUID]string
	failures  []store.Failure
	paused    map[string]string // the reasons
	nextProbe *float64
	settled   []store.Settlement
	claimErr  error
	settleErr error // what the next Settle returns
	renewErr  error

	onClaim   func() // called by each claim
	most      int    // bytes of a claim; 0: any number
	leaseLost bool   // whether the lease is lost when an event is rescheduled or failed
}

// newFakeOutbox has so many events of the topic order.created.
func newFakeOutbox(events int) *fakeOutbox {
	f := &fakeOutbox{claimed: map[uuid.UUID][]uuid.UUID{}, became: map[uuid.UUID]string{}, paused: map[string]string{}}
	f.append("order.created", events)
	return f
}

func (f *fakeOutbox) append(topic string, n int) (ids []uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		e := store.Event{ID: uuid.New(), Topic: topic}
		f.pending, ids = append(f.pending, e), append(ids, e.ID)
	}
	return ids
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
	var going, halted []store.Event
	bytes := 0
	for _, e := range f.pending {
		if _, stops := f.paused[e.Topic]; stops || f.most > 0 && bytes >= f.most {
			halted = append(halted, e)
		} else {
			going, bytes = append(going, e), bytes+len(e.Payload)
		}
	}
	n := min(limit, len(going))
	f.pending = slices.Concat(halted, going[n:])
	return f.claim(going[:n], n == limit), nil
}

// claim makes a claim of events.
func (f *fakeOutbox) claim(events []store.Event, more bool) store.Claim {
	c := store.Claim{Token: uuid.New(), Events: events, More: more}
	if len(f.paused) > 0 {
		c.NextProbe = f.nextProbe
	}
	for _, e := range events {
		f.claimed[c.Token] = append(f.claimed[c.Token], e.ID)
	}
	return c
}

func (f *fakeOutbox) ClaimProbes(_ context.Context, _ string, limit int, _ time.Duration) (store.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = append(f.tried, limit)
	n := min(limit, len(f.probes))
	probes := f.probes[:n]
	f.probes = f.probes[n:]
	return f.claim(probes, false), nil
}

func (f *fakeOutbox) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp.Or(ctx.Err(), f.settleErr); err != nil {
		f.settleErr = nil
		return store.Settled{}, err
	}
	f.settled = append(f.settled, s)
	done := store.Settled{Failed: map[uuid.UUID]time.Time{}}
	for _, e := range s.Published {
		f.became[e.ID] = "published"
	}
	for _, id := range s.Halted {
		f.became[id] = "halted"
	}
	if !f.leaseLost {
		done.Held = len(s.Failures)
		f.failures = append(f.failures, s.Failures...)
		for _, failure := range s.Failures {
			f.became[failure.ID] = "later"
			if failure.Final {
				f.became[failure.ID], done.Failed[failure.ID] = "failed", time.Now()
			}
		}
	}
	if s.End {
		for _, id := range f.claimed[s.Token] {
			if b := f.became[id]; b == "" || b == "halted" {
				f.became[id] = "released"
			}
		}
	}
	maps.Copy(f.paused, s.Paused)
	for _, topic := range s.Resumed {
		delete(f.paused, topic)
	}
	return done, nil
}

func (f *fakeOutbox) Renew(_ context.Context, tokens []uuid.UUID, _ time.Duration) ([]uuid.UUID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = append(f.renewed, tokens...)
	return tokens, f.renewErr
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

// fakeBroker answers messages with its function, before Publish returns. A result with the outcome
// silent is no answer.
type fakeBroker func(messages []publish.Message) []publish.Result

const silent publish.Outcome = -1

func (f fakeBroker) NewPublisher(int) (publish.Publisher, error) { return f, nil }
func (f fakeBroker) Close()                                      {}
func (f fakeBroker) Blocked() bool                               { return false }
func (f fakeBroker) Publish(_ context.Context, m []publish.Message, answer func(int, publish.Result)) {
	for i, r := range f(m) {
		if r.Outcome != silent {
			answer(i, r)
		}
	}
}

// fakeDestination has a session at once, and another one a second after it has ended.
type fakeDestination struct{ session publish.Session }

func (fakeDestination) System() string { return "rabbitmq" }
func (fakeDestination) Name() string   { return "events" }
func (d fakeDestination) KeepConnected(ctx context.Context, use func(context.Context, publish.Session) error) error {
	for ctx.Err() == nil {
		_ = use(ctx, d.session)
		wait(ctx, time.Second)
	}
	return nil
}

func testRelay(from events) *Relay { return relayWith(testConfig, from) }

func relayWith(c RelayConfig, from events) *Relay {
	return newRelay(from, fakeDestination{}, c.withDefaults())
}

// start runs r. stop ends it and wants no error.
func start(t *testing.T, r *Relay, broker publish.Session) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	r.to = fakeDestination{broker}
	go func() { done <- r.work(ctx) }()
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
		return slices.Repeat([]publish.Result{{Outcome: outcome, Err: reasons[outcome]}}, len(messages))
	}
}

var reasons = map[publish.Outcome]error{
	publish.Refused: errors.New("the reason"), publish.Returned: publish.ErrReturned, publish.Invalid: publish.ErrTooLarge,
	publish.Unknown: errors.New("the connection is lost"), publish.NotSent: publish.ErrNotSent,
}
