package relay

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// testConfig has small limits, so that tests can count by hand.
var testConfig = Config{
	Workers: 1, Window: 3, PollInterval: time.Second, Lease: time.Minute,
	ConfirmTimeout: 10 * time.Second, RetryBase: time.Second, RetryCap: time.Minute,
	Logger: slog.New(slog.DiscardHandler),
}

// virtual is a relay in virtual time, with an outbox and a destination that a test controls.
type virtual struct {
	*testing.T
	config Config
	outbox *fakeOutbox
	broker *fakeBroker
	to     publish.Destination // the broker
	relay  *Relay              // run makes one if there is none
	cancel func()              // the relay's context
	stop   func()              // waits for its end, and wants no error
}

// inVirtualTime calls the test, and stops its relay.
func inVirtualTime(t *testing.T, test func(v *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBroker{copies: map[string]int{}}
		v := &virtual{T: t, config: testConfig, outbox: newFakeOutbox(), broker: b, to: b, stop: func() {}}
		defer func() { v.stop() }()
		test(v)
	})
}

func (v *virtual) newRelay() *Relay {
	v.relay = New(v.outbox, v.to, v.config.withDefaults())
	v.relay.pace.limit = v.relay.config.Workers * v.relay.config.Window // as after some answers
	return v.relay
}

// run starts the relay, and returns when it waits for something.
func (v *virtual) run() {
	if v.relay == nil {
		v.newRelay()
	}
	ctx, cancel := context.WithCancel(v.Context())
	done := make(chan error)
	v.cancel = cancel
	v.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			v.Error(err)
		}
	})
	go func() { done <- v.relay.Run(ctx) }()
	synctest.Wait()
}

func (v *virtual) sleep(d time.Duration) { time.Sleep(d); synctest.Wait() }

// want checks how many events have become this.
func (v *virtual) want(n int, became string) {
	v.Helper()
	synctest.Wait()
	if got := v.outbox.count(became); got != n {
		v.Errorf("%d events are %s, want %d", got, became, n)
	}
}

// fakeOutbox returns pending events to claims, and records what became of them. A paused topic has
// a probe as soon as its pause is over.
type fakeOutbox struct {
	mu       sync.Mutex
	pending  []store.Event
	seq      int64
	claims   int
	tried    []int                       // the limit of each claim of probes
	claimed  map[uuid.UUID][]store.Event // by token
	became   map[uuid.UUID]string
	failures []store.Failure
	paused   map[string]time.Time // until when

	// These are asked first. Without a claim and an error, the outbox goes on.
	onClaim   func(n int) (*store.Claim, error)
	onSettle  func(ctx context.Context, s store.Settlement) error
	renewErr  error
	renewals  int
	leaseLost bool // whether the lease is lost when it is renewed, or an event is rescheduled or failed
}

func newFakeOutbox() *fakeOutbox {
	return &fakeOutbox{claimed: map[uuid.UUID][]store.Event{}, became: map[uuid.UUID]string{}, paused: map[string]time.Time{}}
}

func (f *fakeOutbox) append(topic string, n int) (ids []uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.seq++
		e := store.Event{ID: uuid.New(), Seq: f.seq, Topic: topic}
		f.pending, ids = append(f.pending, e), append(ids, e.ID)
	}
	return ids
}

// appendAgain appends an event with this id.
func (f *fakeOutbox) appendAgain(topic string, id uuid.UUID, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, store.Event{ID: id, Topic: topic, Payload: make([]byte, size)})
}

func (f *fakeOutbox) Claim(ctx context.Context, _ string, limit int, _ time.Duration) (store.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims++
	if f.onClaim != nil {
		if c, err := f.onClaim(f.claims); c != nil || err != nil {
			return *cmp.Or(c, &store.Claim{}), err
		}
	}
	if ctx.Err() != nil {
		return store.Claim{}, ctx.Err()
	}
	bytes := 0
	events := f.take(func(e store.Event, n int) bool {
		_, stops := f.paused[e.Topic]
		if stops || n == limit || bytes >= store.MaxClaimBytes {
			return false
		}
		bytes += len(e.Payload)
		return true
	})
	return f.claim(events, len(events) == limit), nil
}

// take takes pending events. n is how many it has taken.
func (f *fakeOutbox) take(wants func(e store.Event, n int) bool) (taken []store.Event) {
	f.pending = slices.DeleteFunc(f.pending, func(e store.Event) bool {
		is := wants(e, len(taken))
		if is {
			taken = append(taken, e)
		}
		return is
	})
	return taken
}

// claim makes a claim of events.
func (f *fakeOutbox) claim(events []store.Event, more bool) store.Claim {
	c := store.Claim{Token: uuid.New(), Events: events, More: more}
	f.claimed[c.Token] = events
	for topic, until := range f.paused {
		in := max(0, time.Until(until).Seconds())
		if in == 0 && !slices.ContainsFunc(f.pending, func(e store.Event) bool { return e.Topic == topic }) {
			in = 2 // its events are in flight
		}
		if c.NextProbe == nil || in < *c.NextProbe {
			c.NextProbe = &in
		}
	}
	return c
}

func (f *fakeOutbox) ClaimProbes(_ context.Context, _ string, limit int, _ time.Duration) (store.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = append(f.tried, limit)
	return f.claim(f.take(func(e store.Event, n int) bool {
		until, paused := f.paused[e.Topic]
		is := paused && n < limit && !time.Now().Before(until)
		if is {
			f.paused[e.Topic] = time.Now().Add(11 * time.Second) // in which another relay does not try it
		}
		return is
	}), false), nil
}

func (f *fakeOutbox) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	if f.onSettle != nil {
		if err := f.onSettle(ctx, s); err != nil {
			return store.Settled{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return store.Settled{}, ctx.Err()
	}
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
	for _, e := range f.claimed[s.Token] {
		if b := f.became[e.ID]; s.End && (b == "" || b == "halted" || b == "retried") {
			f.became[e.ID], f.pending = "retried", append(f.pending, e)
		}
	}
	slices.SortFunc(f.pending, func(a, b store.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for topic := range s.Paused {
		if _, paused := f.paused[topic]; !paused || s.Longer {
			f.paused[topic] = time.Now().Add(s.FirstPause)
		}
	}
	for _, topic := range s.ProbeAgain {
		f.paused[topic] = time.Now()
	}
	maps.DeleteFunc(f.paused, func(topic string, _ time.Time) bool { return slices.Contains(s.Resumed, topic) })
	return done, nil
}

func (f *fakeOutbox) Renew(_ context.Context, tokens []uuid.UUID, _ time.Duration) ([]uuid.UUID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewals++; f.leaseLost {
		return nil, f.renewErr
	}
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
