package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/notification-service/internal/batch"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// slow is a mail server that takes this long for each e-mail.
func slow(d time.Duration) func(context.Context, notification.Notification) error {
	return func(ctx context.Context, _ notification.Notification) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return mailAwayError{context.Cause(ctx)}
		}
	}
}

func TestP12ShutdownFinishesTheMessagesInHand(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.send = slow(maxFinish - time.Second)
		b.consumer.mayPrefetch.Store(true)
		end := b.consume(newFakeQueue(b.deliveries(newMessages(b.config.Workers)...)...))
		began := time.Now()
		if err := end(context.Canceled); err != nil {
			b.Error(err)
		}
		b.wantCounts(map[string]int{"ack": b.config.Workers, "release": 0})
		if took := time.Since(began); took != maxFinish-time.Second {
			b.Errorf("it took %s", took)
		}
	})
}

// TestP12ShutdownGivesBackWhatHasNotBegun: the messages come again, and nothing is copied.
func TestP12ShutdownGivesBackWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.send = slow(time.Second)
		b.consumer.mayPrefetch.Store(true)
		end := b.consume(newFakeQueue(b.deliveries(newMessages(b.config.Prefetch)...)...))
		if err := end(context.Canceled); err != nil {
			b.Error(err)
		}
		waited := b.config.Prefetch - b.config.Workers
		b.wantCounts(map[string]int{"send": b.config.Workers, "ack": b.config.Workers, "release": waited, "copy": 0})
	})
}

func TestP12ShutdownMakesTheCopyOfAMessageInHand(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.send = func(context.Context, notification.Notification) error { time.Sleep(time.Second); return errFailed }
		m := newMessage()
		end := b.consume(newFakeQueue(b.delivery(m)))
		_ = end(context.Canceled)
		b.wantCopy(m, "short", map[string]any{RetryCountHeader: int64(1)})
		b.wantCounts(map[string]int{"ack": 1, "release": 1})
	})
}

func TestP12ShutdownEndsAHoldWithoutAnAck(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.sends(always(mailAwayError{errFailed}))
		b.consumer.mayPrefetch.Store(true)
		end := b.consume(newFakeQueue(b.deliveries(newMessages(5)...)...))
		time.Sleep(time.Minute)
		began := time.Now()
		_ = end(context.Canceled)
		b.wantCounts(map[string]int{"ack": 0, "copy": 0, "requeued": 0})
		if took := time.Since(began); took > time.Second {
			b.Errorf("it took %s", took)
		}
	})
}

// TestP12ShutdownIsBoundedWhenNothingAnswers: mail server, database and broker are silent.
func TestP12ShutdownIsBoundedWhenNothingAnswers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		stopped := make(chan struct{}) // the end of the effect's Run
		defer close(stopped)
		b.effect.send = slow(time.Hour)
		b.effect.release = func() { <-stopped }
		c := b.consumer
		c.mayPrefetch.Store(true)
		end := b.consume(newFakeQueue(b.deliveries(append(newMessages(10), malformedMessage())...)...))
		began := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- end(context.Canceled) }()
		b.shutdown()
		if err := <-ended; err != nil || time.Since(began) != maxFinish {
			b.Errorf("Consume ended after %s, error %v; want %s", time.Since(began), err, maxFinish)
		}
		if err := b.stop(); err != nil || time.Since(began) != maxFinish+maxWriting {
			b.Errorf("Run ended after %s, error %v; want %s", time.Since(began), err, maxFinish+maxWriting)
		}
	})
}

// TestP6AShutdownGivesBackNoLeaseOfASentEmail: its mark cannot be written until all ends. If the
// lease were given back, the e-mail would be sent again.
func TestP6AShutdownGivesBackNoLeaseOfASentEmail(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.mark = func(ctx context.Context, _ notification.Notification) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		b.consumer.mayPrefetch.Store(true)
		end := b.consume(newFakeQueue(b.deliveries(newMessages(b.config.Workers)...)...))
		began := time.Now()
		b.shutdown()
		if err := errors.Join(end(context.Canceled), b.stop()); err != nil {
			b.Error(err)
		}
		if took := time.Since(began); took != maxFinish+maxWriting {
			b.Errorf("marks were tried for %s, want %s", took, maxFinish+maxWriting)
		}
		b.wantCounts(map[string]int{"send": b.config.Workers, "release": 0, "copy": 0, "ack": 0})
	})
}

// TestP12ARecordingOrAMarkThatEndsIsNoFailure: nothing is spent, nothing is copied.
func TestP12ARecordingOrAMarkThatEndsIsNoFailure(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		for _, err := range []error{batch.ErrStopped, context.Canceled} {
			ctx, cancel := context.WithCancelCause(b.Context())
			b.effect.send = func(context.Context, notification.Notification) error { cancel(errCut); return err }
			b.done = nil
			b.deliver(ctx, b.delivery(newMessage()))
			b.wantCounts(map[string]int{"send": 1, "copy": 0, "ack": 0, "release": 1})
		}
		if n := testutil.ToFloat64(b.consumer.metrics.failed); n != 0 {
			b.Errorf("%v failures are counted", n)
		}
	})
}

// TestP6ALostSessionInterruptsNoEmail: its message comes again, waits, and is a duplicate.
func TestP6ALostSessionInterruptsNoEmail(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.send = slow(time.Minute)
		b.consumer.mayPrefetch.Store(true)
		m := newMessage()
		lost := b.delivery(m)
		lost.Ack = func() error { return errors.New("the session has ended") }
		end := b.consume(newFakeQueue(lost))
		began := time.Now()
		if err := end(errCut); err != nil || time.Since(began) != 0 {
			b.Errorf("Consume ended after %s, error %v", time.Since(began), err)
		}
		again := b.delivery(m)
		again.Redelivered = true
		end = b.consume(newFakeQueue(again))
		synctest.Wait()
		b.wantCounts(map[string]int{"send": 1, "ack": 0})
		time.Sleep(time.Minute)
		b.wantCounts(map[string]int{"send": 1, "ack": 1, "release": 0, "copy": 0})
		if n := testutil.ToFloat64(b.consumer.metrics.duplicates); n != 1 {
			b.Errorf("%v duplicates are counted", n)
		}
		_ = end(errCut)
	})
}
