package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// policy is small enough to reason about.
var policy = Config{
	Exchange: "events", DeadLetters: "dlx", Workers: 1, BatchSize: 3, PollInterval: time.Second, Lease: time.Minute,
	ConfirmTimeout: 10 * time.Second, MaxAttempts: 3, RetryBase: time.Second, RetryCap: time.Minute,
}

// fakeOutbox hands out what is pending and remembers what became of it.
type fakeOutbox struct {
	mu       sync.Mutex
	pending  []uuid.UUID
	fail     error // of the next call to MarkPublished
	claims   []int // the limits asked for
	became   map[uuid.UUID]string
	claimErr error

	keys   map[uuid.UUID]string // of those that are not order.created
	probes map[uuid.UUID]bool   // which have waited for a route
	back   []string             // the keys that were asked for

	claiming  func()
	leaseLost bool // by the time that an event is to be failed
}

func newFakeOutbox(events int) *fakeOutbox {
	f := &fakeOutbox{became: map[uuid.UUID]string{}}
	for range events {
		f.pending = append(f.pending, uuid.New())
	}
	return f
}

func (f *fakeOutbox) Claim(ctx context.Context, _ string, limit int, _ time.Duration) (outbox.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claiming != nil {
		f.claiming()
	}
	if ctx.Err() != nil {
		return outbox.Claim{}, ctx.Err()
	}
	f.claims = append(f.claims, limit)
	if f.claimErr != nil {
		return outbox.Claim{}, f.claimErr
	}
	n := min(limit, len(f.pending))
	c := outbox.Claim{Token: uuid.New()}
	for _, id := range f.pending[:n] {
		e := outbox.Claimed{ID: id, EventKey: "order.created", Unroutable: f.probes[id]}
		if key, other := f.keys[id]; other {
			e.EventKey = key
		}
		c.Events = append(c.Events, e)
	}
	f.pending = f.pending[n:]
	return c, nil
}

func (f *fakeOutbox) MarkPublished(ctx context.Context, ids []uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := f.fail; err != nil {
		f.fail = nil
		return err
	}
	for _, id := range ids {
		f.became[id] = "published"
	}
	return nil
}

func (f *fakeOutbox) Reschedule(_ context.Context, _ uuid.UUID, setbacks []outbox.Setback) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range setbacks {
		f.became[s.ID] = "later"
	}
	return len(setbacks), nil
}

func (f *fakeOutbox) BringBack(_ context.Context, key string, _ int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = append(f.back, key)
	return 0, nil
}

func (f *fakeOutbox) Release(_ context.Context, _ uuid.UUID, ids []uuid.UUID) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.became[id] = "released"
	}
	return len(ids), nil
}

func (f *fakeOutbox) Fail(_ context.Context, _ uuid.UUID, failure outbox.Setback) (time.Time, int, error) {
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

// fakeBroker answers each batch by its function.
type fakeBroker func(messages []rabbitmq.Message) []rabbitmq.Result

func (f fakeBroker) NewPublisher(int) (Publisher, error) { return f, nil }
func (f fakeBroker) Close()                              {}
func (f fakeBroker) Unblocked(context.Context) error     { return nil }
func (f fakeBroker) Publish(m []rabbitmq.Message, _ time.Duration) []rabbitmq.Result {
	return f(m)
}

func newRelay(events Outbox) *Relay {
	return New(policy, events, NewMetrics(prometheus.NewRegistry()))
}

// start runs r; stop ends it, and wants it to end well.
func start(t *testing.T, r *Relay, broker Broker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx, broker) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func all(outcome rabbitmq.Outcome) fakeBroker {
	return func(messages []rabbitmq.Message) []rabbitmq.Result {
		results := make([]rabbitmq.Result, len(messages))
		for i := range results {
			results[i] = rabbitmq.Result{Outcome: outcome, Err: errors.New("because")}
		}
		return results
	}
}

func TestAWorkerPassesUntilNothingIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(10)
		r := newRelay(events)
		stop := start(t, r, all(rabbitmq.Confirmed))
		synctest.Wait()
		if n := events.count("published"); n != 10 {
			t.Errorf("%d published before the first poll, want 10", n)
		}
		stop()
	})
}

func TestAWakeUpDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		r := newRelay(events)
		stop := start(t, r, all(rabbitmq.Confirmed))
		synctest.Wait()

		began := time.Now()
		events.append()
		r.Wake()
		synctest.Wait()
		if n := events.count("published"); n != 1 || time.Since(began) != 0 {
			t.Errorf("%d published after %s, want 1 at once", n, time.Since(began))
		}
		stop()
	})
}

func TestThePollFindsWhatNoWakeUpToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		r := newRelay(events)
		stop := start(t, r, all(rabbitmq.Confirmed))
		synctest.Wait()
		events.append()
		time.Sleep(policy.PollInterval)
		synctest.Wait()
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published, want 1", n)
		}
		stop()
	})
}

// TestP12ShutdownDoesNotBreakOffAClaim ends the context while the database has the
// claim and has not answered.
func TestP12ShutdownDoesNotBreakOffAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		events := newFakeOutbox(1)
		events.claiming = stop
		if err := newRelay(events).Run(ctx, all(rabbitmq.Confirmed)); err != nil {
			t.Error(err)
		}
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published, want the one that was claimed", n)
		}
	})
}

// TestP12ShutdownFinishesTheBatchInFlight ends the context while the broker has the
// batch and has not confirmed it.
func TestP12ShutdownFinishesTheBatchInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(10)
		ctx, stop := context.WithCancel(t.Context())
		broker := fakeBroker(func(messages []rabbitmq.Message) []rabbitmq.Result {
			stop()
			time.Sleep(time.Second)
			return all(rabbitmq.Confirmed)(messages)
		})
		if err := newRelay(events).Run(ctx, broker); err != nil {
			t.Error(err)
		}
		if n := events.count("published"); n != policy.BatchSize {
			t.Errorf("%d published, want the %d of the batch in flight and no more", n, policy.BatchSize)
		}
	})
}

func TestP4AnUnknownOutcomeEndsTheSessionAndSpendsNothing(t *testing.T) {
	t.Parallel()
	closing := fakeBroker(func(messages []rabbitmq.Message) []rabbitmq.Result {
		return slices.Repeat([]rabbitmq.Result{{Outcome: rabbitmq.Unknown, Err: rabbitmq.ErrChannelClosed}}, len(messages))
	})
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(8)
		r := newRelay(events)
		if err := r.Run(t.Context(), closing); err == nil {
			t.Error("the relay went on using a channel in an unknown state")
		}
		if n := events.count("released"); n != policy.BatchSize {
			t.Errorf("%d released, want the batch of %d", n, policy.BatchSize)
		}
		// The next session starts with a batch of one for each of them: any may be to blame.
		events.claims = nil
		stop := start(t, r, all(rabbitmq.Confirmed))
		synctest.Wait()
		stop()
		if want := []int{1, 1, 1, policy.BatchSize}; !slices.Equal(events.claims[:4], want) {
			t.Errorf("claims of %v, want %v first", events.claims, want)
		}
	})
}

// TestP4AllOfABatchAreSuspectsWhateverIsKnownOfEach: the broker closed the channel while
// the batch was being sent, and what could not be sent any more has another error.
func TestP4AllOfABatchAreSuspectsWhateverIsKnownOfEach(t *testing.T) {
	t.Parallel()
	closed := rabbitmq.Result{Outcome: rabbitmq.Unknown, Err: rabbitmq.ErrChannelClosed}
	unsent := rabbitmq.Result{Outcome: rabbitmq.Unknown, Err: errors.New("not sent")}
	for name, results := range map[string][]rabbitmq.Result{
		"the tail was not sent":    {closed, closed, unsent},
		"the first is not known":   {unsent, closed, closed},
		"only one knows the cause": {unsent, closed, unsent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(newFakeOutbox(policy.BatchSize))
			err := r.Run(t.Context(), fakeBroker(func([]rabbitmq.Message) []rabbitmq.Result { return results }))
			if !errors.Is(err, rabbitmq.ErrChannelClosed) || r.suspects.Load() != int64(policy.BatchSize) {
				t.Errorf("%d suspects after %v, want all %d of the batch", r.suspects.Load(), err, policy.BatchSize)
			}
		})
	}
}

func TestMarkingIsTriedAgainWhenTheDatabaseComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		events.fail = errors.New("the database is restarting")
		stop := start(t, newRelay(events), all(rabbitmq.Confirmed))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published, want 1: it is confirmed, and would be repeated", n)
		}
		stop()
	})
}

func TestTroubleWithTheOutboxDoesNotEndTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		events.claimErr = errors.New("the database is away")
		stop := start(t, newRelay(events), all(rabbitmq.Confirmed))
		time.Sleep(10 * policy.PollInterval)
		events.mu.Lock()
		events.claimErr = nil
		events.mu.Unlock()
		time.Sleep(policy.PollInterval)
		synctest.Wait()
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published after the database came back, want 1", n)
		}
		stop()
	})
}

// countingBroker counts the channels that were opened.
type countingBroker struct {
	fakeBroker
	opened *int
}

func (c countingBroker) NewPublisher(window int) (Publisher, error) {
	*c.opened++
	return c.fakeBroker.NewPublisher(window)
}

func TestP4AChannelOnWhichAQueueRefusedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[rabbitmq.Outcome]int{rabbitmq.Confirmed: 1, rabbitmq.Returned: 1, rabbitmq.Refused: 2} {
		synctest.Test(t, func(t *testing.T) {
			opened := 0
			stop := start(t, newRelay(newFakeOutbox(2)), countingBroker{all(outcome), &opened})
			synctest.Wait()
			stop()
			if opened != want {
				t.Errorf("outcome %d: %d channels, want %d", outcome, opened, want)
			}
		})
	}
}
