package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// delayed is a broker that gives each answer later, and counts what it gets and how often the worker
// asks whether it blocks: once or twice in each turn of its loop.
type delayed struct {
	by    func(n int) time.Duration // of the nth message; negative: never
	got   map[string]int
	asked atomic.Int64
}

func (d *delayed) NewPublisher(int) (publish.Publisher, error) { return d, nil }
func (d *delayed) Close()                                      {}
func (d *delayed) Blocked() bool                               { d.asked.Add(1); return false }
func (d *delayed) Publish(_ context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	for i, m := range messages {
		n := len(d.got)
		d.got[m.ID]++
		if by := d.by(n); by >= 0 {
			time.AfterFunc(by, func() { answer(i, taken) })
		}
	}
}

// TestP4ADestinationThatIsSlowGetsEachEventOnce, or at most a window of them twice, and takes them all.
func TestP4ADestinationThatIsSlowGetsEachEventOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config  func(*RelayConfig)
		by      time.Duration
		repeats int
	}{
		"within a second":      {func(*RelayConfig) {}, 900 * time.Millisecond, 0},
		"after 1.5 s":          {func(*RelayConfig) {}, 1500 * time.Millisecond, testConfig.Window},
		"as its settings say":  {func(c *RelayConfig) { c.SlowAfter = 5 * time.Second }, 4 * time.Second, 0},
		"just before it is up": {func(c *RelayConfig) { c.SlowAfter = time.Hour }, testConfig.ConfirmTimeout - 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 30
				config, events := testConfig, newFakeOutbox(n)
				test.config(&config)
				at := 1.0
				events.nextProbe = &at
				to := &delayed{got: map[string]int{}, by: func(int) time.Duration { return test.by }}
				stop := start(t, relayWith(config, events), to)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				stop()
				repeats := 0
				for _, times := range to.got {
					repeats += times - 1
				}
				if p := events.count("published"); p != n || repeats > test.repeats {
					t.Errorf("%d of %d published, %d repeats, paused %v", p, n, repeats, events.paused)
				}
			})
		})
	}
}

// TestEachAnswerIsRecordedSoon, also if it is neither the first nor the last one of its claim.
func TestEachAnswerIsRecordedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, each = 20, 50 * time.Millisecond
		config, events := testConfig, newFakeOutbox(n)
		config.Window, config.PollInterval = n, time.Hour
		to := &delayed{got: map[string]int{}, by: func(i int) time.Duration { return time.Duration(i) * each }}
		r := relayWith(config, events)
		stop := start(t, r, to)
		for i := range n {
			time.Sleep(each)
			synctest.Wait()
			if p, late := events.count("published"), i-int(r.config.SettleAfter/each); p < late {
				t.Errorf("%d published of %d answers", p, i+1)
			}
		}
		stop()
	})
}

// TestAWorkerRestsWhileAnAnswerIsMissing, whatever the other answers of the claim are.
func TestAWorkerRestsWhileAnAnswerIsMissing(t *testing.T) {
	t.Parallel()
	for outcome, err := range map[publish.Outcome]error{
		publish.NotSent: publish.ErrNotSent, publish.Unknown: errors.New("lost"), publish.Refused: errors.New("full"),
		publish.Confirmed: nil, publish.Returned: publish.ErrReturned, publish.Invalid: publish.ErrTooLarge,
	} {
		synctest.Test(t, func(t *testing.T) {
			config := testConfig
			config.SlowAfter = config.ConfirmTimeout
			to := &counted{fakeBroker: func(messages []publish.Message) []publish.Result {
				results := answerAll(silent)(messages)
				results[0] = publish.Result{Outcome: outcome, Err: err}
				return results
			}}
			stop := start(t, relayWith(config, newFakeOutbox(2)), to)
			time.Sleep(config.ConfirmTimeout - time.Second)
			if n := to.asked.Load(); n > 200 {
				t.Errorf("after outcome %d the loop turned about %d times in 9 s", outcome, n)
			}
			stop()
		})
	}
}

type counted struct {
	fakeBroker
	asked atomic.Int64
}

func (c *counted) NewPublisher(int) (publish.Publisher, error) { return c, nil }
func (c *counted) Blocked() bool                               { c.asked.Add(1); return false }

// TestAnEventThatBecomesDueDoesNotWaitForThePoll.
func TestAnEventThatBecomesDueDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config, in := testConfig, 2.0
		config.PollInterval = time.Hour
		events := &oddClaims{fakeOutbox: newFakeOutbox(0), claim: func(n int) store.Claim {
			switch n {
			case 1:
				return store.Claim{NextDue: &in}
			case 2:
				return store.Claim{Token: uuid.New(), Events: []store.Event{{ID: uuid.New(), Topic: "a"}}}
			}
			return store.Claim{}
		}}
		stop := start(t, relayWith(config, events), answerAll(publish.Confirmed))
		for after, want := range []int{0, 0, 1} {
			synctest.Wait()
			if n := events.count("published"); n != want {
				t.Errorf("%d published after %d s", n, after)
			}
			time.Sleep(time.Second)
		}
		stop()
	})
}

// restarting is a database that fails twice.
type restarting struct {
	*fakeOutbox
	failed int
}

func (r *restarting) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	if r.failed++; r.failed <= 2 {
		return store.Settled{}, errors.New("the database is restarting")
	}
	return r.fakeOutbox.Settle(ctx, s)
}

// TestP12WhatIsConfirmedIsRecordedAtTheEnd, although the database has just failed, and another event of
// the claim waits to be sent apart.
func TestP12WhatIsConfirmedIsRecordedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config, events := testConfig, newFakeOutbox(3)
		config.SettleAfter, config.ShutdownTimeout = time.Microsecond, 2*firstRetryPause // the second pause is longer than what is left
		r := relayWith(config, &restarting{fakeOutbox: events})
		r.losses.add(events.pending[1].ID, false, true, never)
		r.losses.add(events.pending[2].ID, false, true, never)
		broker := &slowBroker{}
		stop := start(t, r, broker)
		synctest.Wait()
		broker.answerOne(taken)
		synctest.Wait() // the second one is sent, and has no answer
		stop()
		if p, released := events.count("published"), events.count("released"); p != 1 || released != 2 {
			t.Errorf("%d published, %d released: %v", p, released, events.became)
		}
	})
}

// TestTheMemoryOfTopicsIsBounded, also if all of them are paused.
func TestTheMemoryOfTopicsIsBounded(t *testing.T) {
	t.Parallel()
	topics := newTopics()
	for range 2 * maxTopics {
		topics.pause(uuid.NewString())
	}
	if n := len(topics.all); n > maxTopics {
		t.Errorf("%d topics are remembered", n)
	}
}

// TestP4ASlowFunctionIsCalledOnceForEachEvent: nothing is released or paused while it works.
func TestP4ASlowFunctionIsCalledOnceForEachEvent(t *testing.T) {
	t.Parallel()
	for takes, n := range map[time.Duration]int{20 * time.Millisecond: 1000, 2 * time.Second: 30, publish.FuncTimeout - 1: 10} {
		synctest.Test(t, func(t *testing.T) {
			events, config := newFakeOutbox(n), testConfig
			config.Window, config.Workers = 2000, 2
			var calls, running, most atomic.Int64
			r := relayWith(config, events)
			r.to = publish.Func(2, func(context.Context, publish.Message) error {
				calls.Add(1)
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(takes)
				running.Add(-1)
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- r.work(ctx) }()
			time.Sleep(time.Duration(n) * takes)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if p := events.count("published"); p != n || calls.Load() != int64(n) || most.Load() != 2 {
				t.Errorf("%s: %d of %d published after %d calls, %d at a time", takes, p, n, calls.Load(), most.Load())
			}
			if len(events.failures)+len(events.paused)+events.count("released") > 0 {
				t.Errorf("%s: failures %v, paused %v, %d released", takes, events.failures, events.paused, events.count("released"))
			}
		})
	}
}

// TestP6AnUnreachableDestinationCancelsNoCall: the session ends, and what has begun is finished.
func TestP6AnUnreachableDestinationCancelsNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, config := newFakeOutbox(0), testConfig
		events.append("down", 1)
		events.append("slow", 1)
		config.Workers = 2
		var calls atomic.Int64
		r := relayWith(config, events)
		r.to = publish.Func(4, func(ctx context.Context, m publish.Message) error {
			if m.Topic == "down" {
				return publish.ErrNotSent
			}
			calls.Add(1)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(publish.FuncTimeout - time.Second):
				return nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.work(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil || calls.Load() != 1 || events.count("published") != 1 {
			t.Errorf("error %v, %d calls, %v", err, calls.Load(), events.became)
		}
	})
}
