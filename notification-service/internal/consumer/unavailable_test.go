package consumer

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/notification-service/internal/notification"
)

// startAll begins to handle new messages.
func (b *fixture) startAll(n int) {
	for _, d := range b.deliveries(newMessages(n)...) {
		b.consumer.start(b.Context(), d)
	}
	synctest.Wait()
}

// wantCounts checks how often each step was taken.
func (b *fixture) wantCounts(want map[string]int) {
	b.Helper()
	synctest.Wait()
	for step, n := range want {
		if got := b.count(step); got != n {
			b.Errorf("%s %d times, want %d", step, got, n)
		}
	}
}

// TestP9MessagesWaitWhileTheMailServerIsAway: no retry is spent, one message at a time is tried,
// and work goes on when the server is back.
func TestP9MessagesWaitWhileTheMailServerIsAway(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"certainly": mailAwayError{errFailed}, "likely": mailUnclearError{errFailed}} {
		inBubbleNamed(t, name, func(b *fixture) {
			b.effect.sends(always(err))
			b.startAll(40)
			before := b.count("send")
			time.Sleep(time.Minute)
			if n := b.count("send") - before; n < 5 || n > 9 { // after 1, 2, 4, 8, 10, 10 … s
				b.Errorf("%d tries in a minute", n)
			}
			if closed := testutil.ToFloat64(b.consumer.metrics.gateClosed.WithLabelValues("mail")); closed != 1 || !slices.Equal(b.consumer.Unavailable(), []string{"mail"}) {
				b.Errorf("consumer_gate_closed is %v, and %v is waited for", closed, b.consumer.Unavailable())
			}
			b.effect.sends(always(nil))
			time.Sleep(maxPause)
			b.wantCounts(map[string]int{"ack": 40, "copy": 0, "release": 0})
			if len(b.consumer.Unavailable()) != 0 {
				b.Errorf("%v is waited for", b.consumer.Unavailable())
			}
		})
	}
}

// TestP9OtherMessagesDecideAboutAnUnclearError: one of the messages is at fault.
func TestP9OtherMessagesDecideAboutAnUnclearError(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		bad := newMessage()
		b.effect.send = func(_ context.Context, n notification.Notification) error {
			time.Sleep(10 * time.Millisecond)
			if n.MessageID == idOf(bad) {
				return mailUnclearError{errFailed}
			}
			return nil
		}
		b.consumer.start(b.Context(), b.delivery(bad))
		b.startAll(9)
		time.Sleep(100 * time.Millisecond)
		b.startAll(1) // certainly after the first error
		time.Sleep(maxSuspectPause)
		b.wantCounts(map[string]int{"ack": 11, "copy": 1, "reject": 1})
		b.wantCopy(bad, "dlx", map[string]any{FailureCodeHeader: "no-hope"})
	})
}

func TestAMessageHeldTooLongIsRetriedAndSpendsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.sends(always(mailAwayError{errFailed}))
		m := newMessage()
		m.Headers[RetryCountHeader] = int64(1)
		began := time.Now()
		b.deliver(b.Context(), b.delivery(m))
		if held := time.Since(began); held != b.config.MaxHold {
			b.Errorf("held for %s", held)
		}
		b.wantCopy(m, "long", map[string]any{RetryCountHeader: int64(1)})
		b.wantCounts(map[string]int{"ack": 1, "release": 1})
		if n := testutil.ToFloat64(b.consumer.metrics.failed); n != 0 {
			b.Errorf("%v failures are counted", n)
		}
	})
}

func TestADeferredMessageIsRetriedAndSpendsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.sends(always(deferredError{errFailed}))
		for had, want := range map[int64]string{0: "short", 1: "long", 2: "long", maxDeferred - 1: "long"} {
			m := newMessage()
			m.Headers[DeferredCountHeader], m.Headers[RetryCountHeader] = had, int64(1)
			b.want(m, "parse", "record", "send", "copy", "ack", "release")
			b.wantCopy(m, want, map[string]any{DeferredCountHeader: had + 1, RetryCountHeader: int64(1)})
		}
		m := newMessage()
		m.Headers[DeferredCountHeader] = int64(maxDeferred)
		b.deliver(b.Context(), b.delivery(m))
		b.wantCopy(m, "dlx", map[string]any{FailureCodeHeader: retriesExhausted})
	})
}

func TestAMessageLeasedElsewhereIsAwaited(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.elsewhere = true
		m := newMessage()
		done := b.consumer.start(b.Context(), b.delivery(m)).done
		synctest.Wait()
		b.effect.set(idOf(m), notification.Sent) // the other process is done
		<-done
		b.wantCounts(map[string]int{"ack": 1, "copy": 0, "record": 2})
	})
}

func TestAMessageThatStaysLeasedElsewhereIsRetried(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.elsewhere = true
		for had, want := range map[int64]string{0: "short", 7: "short", maxElsewhere: "dlx"} {
			m := newMessage()
			m.Headers[ElsewhereCountHeader], m.Headers[RetryCountHeader] = had, int64(1)
			began := time.Now()
			b.deliver(b.Context(), b.delivery(m))
			if waited := time.Since(began); waited > maxWait {
				b.Errorf("waited for %s", waited)
			}
			headers := map[string]any{RetryCountHeader: int64(1), ElsewhereCountHeader: had + 1}
			if want == "dlx" {
				headers[FailureCodeHeader], headers[ElsewhereCountHeader] = neverCompleted, had
			}
			b.wantCopy(m, want, headers)
		}
	})
}

// TestASecondDeliveryWaitsForTheFirst: the first one's session has ended.
func TestASecondDeliveryWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.send = func(context.Context, notification.Notification) error { time.Sleep(time.Minute); return nil }
		m := newMessage()
		first := b.consumer.start(b.Context(), b.delivery(m))
		synctest.Wait()
		second := b.consumer.start(b.Context(), b.delivery(m))
		time.Sleep(time.Second)
		b.wantCounts(map[string]int{"record": 1})
		<-first.done
		<-second.done
		b.wantCounts(map[string]int{"record": 2, "send": 1, "ack": 2})
		if n := testutil.ToFloat64(b.consumer.metrics.duplicates); n != 1 {
			b.Errorf("%v duplicates are counted", n)
		}
	})
}

// TestASecondDeliveryWaitsForTheReleaseOfTheFirst: a late release would end the lease of the
// second one.
func TestASecondDeliveryWaitsForTheReleaseOfTheFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.sends(times(1, errFailed))
		b.effect.release = func() { time.Sleep(time.Minute) } // the database is away
		m := newMessage()
		<-b.consumer.start(b.Context(), b.delivery(m)).done
		<-b.consumer.start(b.Context(), b.delivery(m)).done
		want := []string{"parse", "record", "send", "copy", "ack", "parse", "release", "record", "send", "ack"}
		if !slices.Equal(b.done, want) {
			b.Errorf("steps %v, want %v", b.done, want)
		}
	})
}

// TestP9AMessageThatAlwaysBreaksTheConnectionIsRetried, while others are accepted: it
// would close the gate again and again.
func TestP9AMessageThatAlwaysBreaksTheConnectionIsRetried(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		bad := newMessage()
		b.effect.send = func(_ context.Context, n notification.Notification) error {
			if n.MessageID == idOf(bad) {
				return mailBrokenError{mailAwayError{errFailed}}
			}
			return nil
		}
		b.consumer.start(b.Context(), b.delivery(bad))
		for range 3 * maxFailures {
			b.startAll(1)
			time.Sleep(maxPause)
		}
		b.wantCounts(map[string]int{"copy": 1, "ack": 3*maxFailures + 1})
		b.wantCopy(bad, "short", map[string]any{RetryCountHeader: int64(1)})
		if waiting := b.consumer.Unavailable(); len(waiting) != 0 {
			b.Errorf("messages wait for %v", waiting)
		}
	})
}
