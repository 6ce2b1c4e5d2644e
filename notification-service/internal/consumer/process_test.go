package consumer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestAMessageIsAcknowledgedAfterItsEffect(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.begin()
	b.want(newMessage(), "parse", "record", "send", "ack")
}

func TestP5ADuplicateIsOnlyAcknowledged(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.begin()
	m := newMessage()
	b.want(m, "parse", "record", "send", "ack")
	b.want(m, "parse", "record", "ack")
}

func TestADuplicateGoesOnFromItsState(t *testing.T) {
	t.Parallel()
	for _, done := range []notification.Status{notification.Sent, notification.Rejected, notification.Superseded, notification.Pruned} {
		inBubbleNamed(t, string(done), func(b *fixture) {
			m := newMessage()
			b.effect.sends(times(1, errFailed))
			b.want(m, "parse", "record", "send", "copy", "ack", "release")
			b.want(m, "parse", "record", "send", "ack") // it was not sent yet
			b.effect.set(idOf(m), done)
			b.want(m, "parse", "record", "ack")
		})
	}
}

func TestP9AMessageThatCannotSucceedIsDeadLetteredAtOnce(t *testing.T) {
	t.Parallel()
	db := newFixture(t).db
	noHope := permanent{errFailed}
	recording := func(fail func() error) func(*fixture, *rabbitmq.Message) {
		return func(b *fixture, _ *rabbitmq.Message) {
			b.effect.record = func([]notification.Request) error { return fail() }
		}
	}
	sending := func(fail func() error) func(*fixture, *rabbitmq.Message) {
		return func(b *fixture, _ *rabbitmq.Message) { b.effect.sends(fail) }
	}
	for name, test := range map[string]struct {
		fail func(*fixture, *rabbitmq.Message)
		code string
	}{
		"what cannot be parsed":      {func(b *fixture, _ *rabbitmq.Message) { b.effect.parse = always(errFailed) }, malformed},
		"an id that is none":         {func(_ *fixture, m *rabbitmq.Message) { m.ID = "42" }, malformed},
		"no id":                      {func(_ *fixture, m *rabbitmq.Message) { m.ID = "" }, malformed},
		"no timestamp":               {func(_ *fixture, m *rabbitmq.Message) { m.Timestamp = time.Time{} }, malformed},
		"a time before the calendar": {func(_ *fixture, m *rabbitmq.Message) { m.Timestamp = time.Unix(-1<<50, 0) }, malformed},
		"a time that wraps around":   {func(_ *fixture, m *rabbitmq.Message) { m.Timestamp = time.Unix(-18444948681709, 0) }, malformed},
		"a time out of range":        {func(_ *fixture, m *rabbitmq.Message) { m.Timestamp = time.Unix(1<<50, 0) }, malformed},
		"what can never be recorded": {recording(always(noHope)), "no-hope"},
		"what can never be sent":     {sending(always(noHope)), "no-hope"},
		"a wrapped permanent error":  {sending(always(errors.Join(errFailed, noHope))), "no-hope"},
		"what makes parsing panic":   {func(b *fixture, _ *rabbitmq.Message) { b.effect.parse = panics }, panicked},
		"what makes recording panic": {recording(panics), panicked},
		"what makes sending panic":   {sending(panics), panicked},
		"what is older than the window": {func(_ *fixture, m *rabbitmq.Message) {
			m.Timestamp = time.Now().Add(-window - time.Minute)
		}, OutsideDedupeWindow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fixtureOn(t, db)
			b.begin()
			m := newMessage()
			test.fail(b, &m)
			b.deliver(t.Context(), b.delivery(m))
			if copied := slices.Index(b.done, "copy"); copied < 0 || slices.Index(b.done, "ack") < copied || b.count("release") != 0 {
				t.Errorf("steps %v, want the copy, then the ack, and no other try", b.done)
			}
			if sent := b.count("send"); b.count("reject") != sent || sent == 1 && slices.Index(b.done, "reject") < slices.Index(b.done, "copy") {
				t.Errorf("steps %v: what was leased is rejected after the copy", b.done)
			}
			b.wantCopy(m, "dlx", map[string]any{FailureCodeHeader: test.code, RetryCountHeader: int64(0)})
		})
	}
}

func TestAnOldMessageThatIsForcedHasItsEffect(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.begin()
	m := newMessage()
	m.Timestamp, m.Headers[ForcedHeader] = time.Now().Add(-window-time.Minute), true
	b.want(m, "parse", "record", "send", "ack")
}

func TestARetryGoesFromTierToTierAndThenToTheDeadLetters(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.sends(always(errFailed))
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
			m := newMessage()
			m.Headers[RetryCountHeader] = test.had
			b.want(m, "parse", "record", "send", "copy", "ack", "release")
			b.wantCopy(m, test.exchange, map[string]any{RetryCountHeader: test.want})
		}
	})
}

func TestEachOutcomeIsCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		m := newMessage()
		b.deliver(b.Context(), b.delivery(m))
		b.deliver(b.Context(), b.delivery(m))
		for _, err := range []error{errFailed, permanent{errFailed}} {
			b.effect.sends(always(err))
			b.deliver(b.Context(), b.delivery(newMessage()))
		}
		for _, o := range []outcome{success, duplicate, retried, deadLettered} {
			if got := testutil.ToFloat64(b.consumer.metrics.messages[o]); got != 1 {
				b.Errorf("%s counted %v times", o, got)
			}
		}
		if problems, err := testutil.GatherAndLint(b.registry); err != nil || len(problems) > 0 {
			b.Error(problems, err)
		}
	})
}
