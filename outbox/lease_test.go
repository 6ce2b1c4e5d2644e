package outbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// oneAfterTheOther is a publisher that begins a message each second, as a mail server with one
// connection. It asks only the context whether it may begin.
type oneAfterTheOther struct{ begun atomic.Int64 }

func (o *oneAfterTheOther) NewPublisher(int) (publish.Publisher, error) { return o, nil }
func (*oneAfterTheOther) Blocked() bool                                 { return false }
func (*oneAfterTheOther) OneByOne()                                     {}
func (*oneAfterTheOther) Close()                                        {}

func (o *oneAfterTheOther) Publish(ctx context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	for i := range messages {
		if ctx.Err() != nil {
			answer(i, publish.Result{Outcome: publish.NotSent, Err: publish.ErrNotSent})
			continue
		}
		o.begun.Add(1)
		time.Sleep(time.Second)
		answer(i, taken)
	}
}

// TestP6P7NothingIsBegunAfterTheLease: a suspended process, and one whose database is away, find out
// by the clock. Another relay may have the events, and may send later ones of the same aggregates.
func TestP6P7NothingIsBegunAfterTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLease(time.Now(), 3*time.Second)
		ctx := leased{t.Context(), l}
		time.Sleep(3*time.Second - 1)
		if ctx.Err() != nil {
			t.Error("it ended too early")
		}
		time.Sleep(time.Nanosecond)
		if !errors.Is(ctx.Err(), errLeaseEnded) {
			t.Error("it goes on")
		}
		l.extend(time.Now(), time.Second)
		if ctx.Err() != nil {
			t.Error("it was not extended")
		}
		if l.end(); ctx.Err() == nil {
			t.Error("it was not ended")
		}
	})
}

// TestP6NothingIsBegunWhileNothingCanBeMarked: each e-mail more would be one more repeat.
func TestP6NothingIsBegunWhileNothingCanBeMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := emails()
		c.Window = 20
		events, server := newFakeOutbox(20), &oneAfterTheOther{}
		events.renewErr = errors.New("the database is away")
		stop := start(t, relayWith(c, events), server)
		time.Sleep(10 * time.Second)
		if n := server.begun.Load(); n > 3 { // the first renewal comes after a second
			t.Errorf("%d were begun", n)
		}
		events.mu.Lock()
		events.renewErr = nil
		events.mu.Unlock()
		stop()
	})
}

// TestP6NobodyClaimsWhileAWorkerCannotMark what it has sent.
func TestP6NobodyClaimsWhileAWorkerCannotMark(t *testing.T) {
	t.Parallel()
	r := relayWith(emails(), newFakeOutbox(0))
	unable := &worker{Relay: r, oneByOne: true, failures: 1}
	other := &worker{Relay: r, oneByOne: true, session: &slowBroker{}, due: true}
	b := &batch{lease: newLease(time.Now(), time.Minute)}
	b.add(item{state: decided})
	unable.inFlight.batches = []*batch{b}
	for range 2 {
		if unable.noteUnrecorded(); other.mayClaim(t.Context()) {
			t.Error("another worker claims")
		}
	}
	unable.failures = 0
	if unable.noteUnrecorded(); r.unrecorded.Load() != 0 {
		t.Error("it is not over")
	}
}
