package consumer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// spoilt is a message that cannot be read: all that is left to do is its copy.
func spoilt() rabbitmq.Message {
	m := aMessage()
	m.Timestamp = time.Time{}
	return m
}

func (b *bench) waitingCopies() (dlq, retry float64) {
	waiting := b.consumer.metrics.copiesWaiting
	return testutil.ToFloat64(waiting[true]), testutil.ToFloat64(waiting[false])
}

func TestNothingIsAcknowledgedBeforeItsCopyIsThere(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.effect.sends(always(errFailed))
		b.outlet.fail = times(2, errFailed)
		m := aMessage()
		b.want(m, "parse", "record", "send", "copy", "copy", "copy", "ack", "release")
		b.wantCopy(m, "short", map[string]any{RetryCountHeader: int64(1)})
		if n := testutil.ToFloat64(b.consumer.metrics.copyFailures[false]); n != 2 {
			b.Errorf("%v failures are counted, want 2", n)
		}
	})
}

// TestP9CopiesThatCannotBeMadeHoldNoOther message, however many they are.
func TestP9CopiesThatCannotBeMadeHoldNoOther(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.outlet.fail = always(errFailed)
		for range 20 {
			b.consumer.start(b.Context(), b.delivery(spoilt()))
		}
		synctest.Wait()
		b.startAll(20)
		b.wantCounts(map[string]int{"ack": 20, "requeued": 0})
		if dlq, retry := b.waitingCopies(); dlq != 20 || retry != 0 {
			b.Errorf("%v and %v copies wait, want 20 dead letters", dlq, retry)
		}
		b.outlet.fail = nil
		time.Sleep(2 * longestCopyPause)
		b.wantCounts(map[string]int{"ack": 40, "requeued": 0})
		if dlq, _ := b.waitingCopies(); dlq != 0 {
			b.Errorf("%v copies wait", dlq)
		}
	})
}

func TestP9ACopyThatIsNotMadeInTimeGoesBackToTheQueue(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.outlet.fail = always(errFailed)
		began := time.Now()
		b.deliver(b.Context(), b.delivery(spoilt()))
		if held := time.Since(began); held != b.config.MaxHold {
			b.Errorf("held for %s", held)
		}
		b.wantCounts(map[string]int{"ack": 0, "requeued": 1})
		given, counted := testutil.ToFloat64(b.consumer.metrics.givenUp), testutil.ToFloat64(b.consumer.metrics.messages[deadLettered])
		if given != 1 || counted != 0 {
			b.Errorf("%v are counted as given up, %v as dead letters", given, counted)
		}
		if b.consumer.trusted.Load() {
			b.Error("that has earned the trust")
		}
	})
}

// TestAHeldMessageHasTimeForItsCopy: it was held at a gate until its time was over.
func TestAHeldMessageHasTimeForItsCopy(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.effect.sends(always(mailAwayError{errFailed}))
		b.outlet.fail = times(5, errFailed)
		b.deliver(b.Context(), b.delivery(aMessage()))
		b.wantCounts(map[string]int{"ack": 1, "requeued": 0})
	})
}

func TestADeadLetterNeedsNoDatabase(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.effect.record = nil
		m := spoilt()
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

// TestP9WhatNobodyCouldPublishIsRejected: a copy of it would never get through.
func TestP9WhatNobodyCouldPublishIsRejected(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.outlet.fail = always(rabbitmq.ErrTooLarge)
		b.want(spoilt(), "parse", "copy", "rejected")

		large := b.delivery(aMessage())
		large.Size = rabbitmq.MaxBody + 1 // its body is left out
		b.taken = nil
		b.deliver(b.Context(), large)
		b.wantCounts(map[string]int{"parse": 0, "copy": 0, "rejected": 1})
	})
}
