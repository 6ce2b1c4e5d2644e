package consumer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// malformedMessage cannot be read, so it only needs its copy.
func malformedMessage() rabbitmq.Message {
	m := newMessage()
	m.Timestamp = time.Time{}
	return m
}

func (b *fixture) waitingCopies() (dlq, retry float64) {
	waiting := b.consumer.metrics.copiesWaiting
	return testutil.ToFloat64(waiting[true]), testutil.ToFloat64(waiting[false])
}

func TestNothingIsAcknowledgedBeforeItsCopyIsThere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.sends(always(errFailed))
		b.publisher.fails(times(2, errFailed))
		m := newMessage()
		b.want(m, "parse", "record", "send", "copy", "copy", "copy", "ack", "release")
		b.wantCopy(m, "short", map[string]any{RetryCountHeader: int64(1)})
		if n := testutil.ToFloat64(b.consumer.metrics.copyFailures[false]); n != 2 {
			b.Errorf("%v failures are counted, want 2", n)
		}
	})
}

// TestP9CopiesThatCannotBeMadeDelayNoOther message, however many they are.
func TestP9CopiesThatCannotBeMadeDelayNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.publisher.fails(always(errFailed))
		for range 20 {
			b.consumer.start(b.Context(), b.delivery(malformedMessage()))
		}
		synctest.Wait()
		b.startAll(20)
		b.wantCounts(map[string]int{"ack": 20, "requeued": 0})
		if dlq, retry := b.waitingCopies(); dlq != 20 || retry != 0 {
			b.Errorf("%v and %v copies wait, want 20 dead letters", dlq, retry)
		}
		b.publisher.fails(nil)
		time.Sleep(2 * maxCopyPause)
		b.wantCounts(map[string]int{"ack": 40, "requeued": 0})
		if dlq, _ := b.waitingCopies(); dlq != 0 {
			b.Errorf("%v copies wait", dlq)
		}
	})
}

// TestP9RefusedCopiesUseUpNoDeliveries: the dead-letter queue refuses copies for a day. Each time
// the message comes again, it is a new message for the broker, so it never meets its delivery limit.
func TestP9RefusedCopiesUseUpNoDeliveries(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.publisher.only = "dlx"
		b.publisher.fails(always(errFailed))
		m, came := malformedMessage(), 0
		for began := time.Now(); time.Since(began) < 24*time.Hour; came++ {
			m.Headers["x-death"], m.Headers["CC"], m.Headers["BCC"] = "stripped", "stripped", "stripped"
			b.deliver(b.Context(), b.delivery(m))
			m = b.wantCopyOf(m, "requeue")
		}
		b.wantCounts(map[string]int{"ack": came, "requeued": 0, "rejected": 0})
		if came != int(24*time.Hour/b.config.MaxHold) {
			b.Errorf("it came %d times in a day", came)
		}
		b.publisher.fails(nil)
		b.deliver(b.Context(), b.delivery(m))
		b.wantCopyOf(m, "dlx")
	})
}

func TestP9AMessageThatNoQueueTakesIsReturnedBeforeTheConsumerTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.publisher.fails(always(errFailed))
		began := time.Now()
		b.deliver(b.Context(), b.delivery(malformedMessage()))
		if held := time.Since(began); held != 25*time.Minute {
			b.Errorf("held for %s", held)
		}
		b.wantCounts(map[string]int{"ack": 0, "requeued": 1})
		given, counted := testutil.ToFloat64(b.consumer.metrics.givenUp), testutil.ToFloat64(b.consumer.metrics.messages[deadLettered])
		if given != 1 || counted != 0 {
			b.Errorf("%v are counted as given up, %v as dead letters", given, counted)
		}
		if b.consumer.mayPrefetch.Load() {
			b.Error("messages are prefetched after a message that was not done")
		}
	})
}

// TestAHeldMessageHasTimeForItsCopy, also after a gate has held it for all of MaxHold.
func TestAHeldMessageHasTimeForItsCopy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.sends(always(mailAwayError{errFailed}))
		b.publisher.fails(times(5, errFailed))
		b.deliver(b.Context(), b.delivery(newMessage()))
		b.wantCounts(map[string]int{"ack": 1, "requeued": 0})
	})
}

func TestADeadLetterNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.record = nil
		m := malformedMessage()
		b.want(m, "parse", "copy", "ack")
		got := b.wantCopy(m, "dlx", map[string]any{FailureCodeHeader: malformed})
		if at, there := got.Headers[FailedAtHeader]; there {
			b.Errorf("it says that it failed at %v, and no clock is known", at)
		}

		b.consumer.clock.set(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		time.Sleep(time.Minute)
		b.want(m, "parse", "copy", "ack")
		b.wantCopy(m, "dlx", map[string]any{FailedAtHeader: "2026-01-02T03:05:05Z"})
	})
}

// TestP9AMessageThatCannotBePublishedIsRejected: its copy would always be refused.
func TestP9AMessageThatCannotBePublishedIsRejected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.publisher.fails(always(publish.ErrTooLarge))
		b.want(malformedMessage(), "parse", "copy", "rejected")

		large := b.delivery(newMessage())
		large.Size = rabbitmq.MaxBody + 1 // its body is left out
		b.done = nil
		b.deliver(b.Context(), large)
		b.wantCounts(map[string]int{"parse": 0, "copy": 0, "rejected": 1})
	})
}
