package consumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/rabbitmq"
)

func TestAMessageIsAcknowledgedAfterItsEffect(t *testing.T) {
	t.Parallel()
	newBench(t).deliver(newBench(t).message(), "parse", "record", "complete", "ack")
}

func TestP5ARepeatCompletesAndDoesNotRecordAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.message()
	b.deliver(m, "parse", "record", "complete", "ack")
	b.deliver(m, "parse", "complete", "ack")
}

func TestP9WhatCannotSucceedIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail func(*bench, *rabbitmq.Message)
		code string
	}{
		"what cannot be parsed":       {func(b *bench, _ *rabbitmq.Message) { b.effect.parse = always(errFailed) }, malformed},
		"an id that is none":          {func(_ *bench, m *rabbitmq.Message) { m.ID = "42" }, malformed},
		"no id":                       {func(_ *bench, m *rabbitmq.Message) { m.ID = "" }, malformed},
		"no timestamp":                {func(_ *bench, m *rabbitmq.Message) { m.Timestamp = time.Time{} }, malformed},
		"what can never be recorded":  {func(b *bench, _ *rabbitmq.Message) { b.effect.record = always(permanent{errFailed}) }, "no-hope"},
		"what can never be completed": {func(b *bench, _ *rabbitmq.Message) { b.effect.complete = always(permanent{errFailed}) }, "no-hope"},
		"a wrapped permanent error": {func(b *bench, _ *rabbitmq.Message) {
			b.effect.complete = always(errors.Join(errFailed, permanent{errFailed}))
		}, "no-hope"},
		"what makes parsing panic":    {func(b *bench, _ *rabbitmq.Message) { b.effect.parse = panics }, panicked},
		"what makes recording panic":  {func(b *bench, _ *rabbitmq.Message) { b.effect.record = panics }, panicked},
		"what makes completing panic": {func(b *bench, _ *rabbitmq.Message) { b.effect.complete = panics }, panicked},
		"what is older than the window": {func(_ *bench, m *rabbitmq.Message) {
			m.Timestamp = time.Now().Add(-window - time.Minute)
		}, OutsideDedupeWindow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			m := b.message()
			test.fail(b, &m)
			b.consumer().deliver(t.Context(), b.delivery(m))
			if n := len(b.taken); n < 2 || b.taken[n-2] != "copy" || b.taken[n-1] != "ack" {
				t.Errorf("steps %v, want the copy and then the ack", b.taken)
			}
			b.wantCopy(m, "dlx", map[string]any{FailureCodeHeader: test.code, RetryCountHeader: int64(0)})
		})
	}
}

func panics() error { panic("a bug") }

func TestAnOldMessageThatIsForcedHasItsEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.message()
	m.Timestamp, m.Headers[ForcedHeader] = time.Now().Add(-window-time.Minute), true
	b.deliver(m, "parse", "record", "complete", "ack")
}

func TestARetryGoesFromTierToTierAndThenToTheDeadLetters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		had      any
		exchange string
		want     int64
	}{
		{nil, "short", 1},
		{"garbage", "short", 1},
		{int64(-7), "short", 1},
		{int32(1), "long", 2},
		{int64(1), "long", 2},
		{int64(2), "dlx", 2},
		{int64(99), "dlx", 99},
	} {
		b := newBench(t)
		b.effect.complete = always(errFailed)
		m := b.message()
		m.Headers[RetryCountHeader] = test.had
		b.deliver(m, "parse", "record", "complete", "copy", "ack")
		b.wantCopy(m, test.exchange, map[string]any{RetryCountHeader: test.want})
	}
}

func TestNothingIsAcknowledgedBeforeItsCopyIsThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.effect.complete, b.outlet.fail = always(errFailed), times(2, errFailed)
	m := b.message()
	b.deliver(m, "parse", "record", "complete", "copy", "copy", "copy", "ack")
	b.wantCopy(m, "short", map[string]any{RetryCountHeader: int64(1)})
}

// TestP9WhatNobodyCouldPublishIsRejected: a copy of it would never get through.
func TestP9WhatNobodyCouldPublishIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.effect.parse, b.outlet.fail = always(errFailed), always(rabbitmq.ErrTooLarge)
	b.deliver(b.message(), "parse", "copy", "reject")
}

func TestAMessageInOtherHandsIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.effect.complete = times(1, heldElsewhereError{errFailed})
	b.deliver(b.message(), "parse", "record", "complete", "parse", "complete", "ack")
}

func TestAMessageThatStaysInOtherHandsComesLaterAndSpendsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.effect.complete = always(heldElsewhereError{errFailed})
	m := b.message()
	m.Headers[RetryCountHeader] = int64(1)
	b.consumer().deliver(t.Context(), b.delivery(m))
	b.wantCopy(m, "short", map[string]any{RetryCountHeader: int64(1)})
}

func TestP12ShutdownFinishesTheMessageInHand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	b.effect.record = func() error { stop(); return nil }
	b.consumer().deliver(ctx, b.delivery(b.message()))
	b.want("parse", "record", "complete", "ack")
}

func TestP12ShutdownMakesTheCopyOfTheMessageInHand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	b.effect.complete = func() error { stop(); return errFailed }
	b.consumer().deliver(ctx, b.delivery(b.message()))
	b.want("parse", "record", "complete", "copy", "ack")
}

func TestEachOutcomeIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.consumer()
	m := b.message()
	deliver := func(m rabbitmq.Message, complete func() error) {
		b.effect.complete = complete
		c.effect = b.effect
		c.deliver(t.Context(), b.delivery(m))
	}
	b.effect.left = true
	deliver(m, times(1, heldElsewhereError{errFailed})) // noted at the first try, completed at the second
	b.effect.left = false
	deliver(m, nil)
	deliver(b.message(), always(errFailed))
	deliver(b.message(), always(permanent{errFailed}))
	for _, o := range []outcome{success, duplicate, retried, deadLettered} {
		if got := testutil.ToFloat64(c.metrics.messages[o]); got != 1 {
			t.Errorf("%s counted %v times", o, got)
		}
	}
	problems, err := testutil.GatherAndLint(b.registry)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if !slices.Contains(b.taken, "ack") {
		t.Error("nothing was acknowledged")
	}
}
