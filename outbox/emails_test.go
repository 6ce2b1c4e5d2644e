package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// emails are the settings of a relay to a mail server.
func emails() RelayConfig {
	c := testConfig
	c.SettleAfter = time.Microsecond
	c.NoAnswerPauses = []time.Duration{time.Minute, time.Hour}
	c.ShutdownTimeout = 20 * time.Second
	return c
}

// TestP6AnEventWithoutAnAnswerWaitsLong: each further try may be one more e-mail.
func TestP6AnEventWithoutAnAnswerWaitsLong(t *testing.T) {
	t.Parallel()
	r := relayWith(emails(), newFakeOutbox(0))
	for tried, want := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		e := newFakeOutbox(1).pending[0]
		e.RetryCount = tried
		r.topics.pause(e.Topic)
		v := r.decide(e, publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout}, false)
		if v.unknown || v.failure.Halt || !v.failure.Counts || v.failure.Delay != want {
			t.Errorf("after %d tries: %+v", tried, v)
		}
	}
}

type oneByOne struct{ *slowBroker }

func (oneByOne) OneByOne() {}

// TestASilentServerOfOneByOneGetsNoFurtherConnection, and what has no answer is settled when it comes.
func TestASilentServerOfOneByOneGetsNoFurtherConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		events.append("slow", 2)
		broker := &slowBroker{}
		stop := start(t, relayWith(emails(), events), oneByOne{broker})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if broker.opened != 1 {
			t.Errorf("%d publishers", broker.opened)
		}
		broker.answer(taken)
		synctest.Wait()
		if n := events.count("published"); n != 2 {
			t.Errorf("%d published", n)
		}
		stop()
	})
}

// TestP6EachAnswerIsSettledAtOnce, although others of the batch have none.
func TestP6EachAnswerIsSettledAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(3)
		broker := &slowBroker{}
		stop := start(t, relayWith(emails(), events), broker)
		synctest.Wait()
		for i := range 3 {
			broker.answerOne(taken)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if n := events.count("published"); n != i+1 {
				t.Errorf("%d published after %d answers", n, i+1)
			}
		}
		stop()
	})
}

// TestP12NothingIsBegunAfterTheEnd: a publisher that sends one after the other finishes what it has
// begun, and leaves the rest.
func TestP12NothingIsBegunAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, calls := newFakeOutbox(3), 0
		to := publish.Func(1, func(ctx context.Context, _ publish.Message) error {
			calls++
			select {
			case <-time.After(12 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		var session publish.Session
		ctx, cancel := context.WithCancel(t.Context())
		if err := to.KeepConnected(ctx, func(_ context.Context, s publish.Session) error { session = s; cancel(); return nil }); err != nil {
			t.Fatal(err)
		}
		stop := start(t, relayWith(emails(), events), session)
		synctest.Wait()
		stop()
		if n := events.count("published"); n != 1 || calls != 1 || events.count("released") != 2 {
			t.Errorf("%d published of %d calls, %v", n, calls, events.became)
		}
	})
}
