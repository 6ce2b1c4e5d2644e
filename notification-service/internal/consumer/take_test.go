package consumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// take takes messages from the queue until the session ends with the cause; it returns what
// Take returned.
func (b *bench) take(queue *fakeQueue) (end func(cause error) error) {
	ctx, cancel := context.WithCancelCause(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.consumer.Take(ctx, queue) }()
	synctest.Wait()
	return func(cause error) error {
		cancel(cause)
		return <-ended
	}
}

func (b *bench) deliveries(messages ...rabbitmq.Message) (all []rabbitmq.Delivery) {
	for _, m := range messages {
		all = append(all, b.delivery(m))
	}
	return all
}

func aMessages(n int) (messages []rabbitmq.Message) {
	for range n {
		messages = append(messages, aMessage())
	}
	return messages
}

var errCut = errors.New("the connection closed")

func TestTakeHandlesEveryDelivery(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		end := b.take(newFakeQueue(b.deliveries(aMessages(50)...)...))
		b.wantCounts(map[string]int{"ack": 50})
		if err := end(errCut); err != nil {
			b.Error(err)
		}
	})
}

func TestTakeSaysThatNoMoreCome(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		for _, trusted := range []bool{false, true} {
			b.consumer.trusted.Store(trusted)
			queue := newFakeQueue()
			close(queue.over)
			if err := b.consumer.Take(b.Context(), queue); !errors.Is(err, rabbitmq.ErrCancelled) {
				b.Errorf("error %v, want %v", err, rabbitmq.ErrCancelled)
			}
		}
	})
}

// TestP9OneMessageAtATimeUntilOneHasEarnedTheTrust: the broker counts the death of the
// process for every message that is out.
func TestP9OneMessageAtATimeUntilOneHasEarnedTheTrust(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.effect.send = func(context.Context, notification.Notification) error { time.Sleep(time.Second); return nil }
		all := b.deliveries(aMessages(20)...)
		all[0].Redelivered, all[1].Redelivered = true, true
		queue := newFakeQueue(all...)
		end := b.take(queue)
		for want := 1; want <= 3; want++ {
			b.wantCounts(map[string]int{"send": want})
			if prefetches, _, _ := queue.opened(); !slices.Equal(prefetches, []int{1}) {
				b.Errorf("prefetches %v before message %d", prefetches, want)
			}
			time.Sleep(time.Second)
		}
		b.wantCounts(map[string]int{"parse": 3 + b.config.Prefetch})
		_ = end(errCut)
		time.Sleep(time.Minute)

		end = b.take(queue) // the next session of the same process begins with all
		if prefetches, _, _ := queue.opened(); !slices.Equal(prefetches, []int{1, b.config.Prefetch, b.config.Prefetch}) {
			b.Errorf("prefetches %v", prefetches)
		}
		_ = end(errCut)
	})
}

// TestP9WaitingCopiesDoNotHoldTheCarefulStart: each has a channel of its own.
func TestP9WaitingCopiesDoNotHoldTheCarefulStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.outlet.fails(always(errFailed))
		queue := newFakeQueue(b.deliveries(spoilt(), spoilt(), spoilt(), aMessage(), aMessage())...)
		end := b.take(queue)
		time.Sleep(4 * shortWait)
		b.wantCounts(map[string]int{"ack": 2, "requeued": 0})
		if prefetches, open, _ := queue.opened(); !slices.Equal(prefetches, []int{1, 1, 1, 1, b.config.Prefetch}) || open != 4 {
			b.Errorf("prefetches %v, %d channels are open; want 3 for the copies, and the one for all", prefetches, open)
		}
		b.outlet.fails(nil)
		time.Sleep(longestCopyPause)
		b.wantCounts(map[string]int{"ack": 5})
		if _, open, _ := queue.opened(); open != 1 {
			b.Errorf("%d channels are open when the copies are made, want 1", open)
		}
		_ = end(errCut)
	})
}

func TestTheCarefulStartWaitsForAsManyCopiesAsThePrefetch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.outlet.fails(always(errFailed))
		var bad []rabbitmq.Message
		for range 100 {
			bad = append(bad, spoilt())
		}
		queue := newFakeQueue(b.deliveries(bad...)...)
		end := b.take(queue)
		time.Sleep(time.Minute)
		b.wantCounts(map[string]int{"parse": b.config.Prefetch})
		b.outlet.fails(nil)
		time.Sleep(time.Minute)
		b.wantCounts(map[string]int{"ack": 100})
		if _, _, most := queue.opened(); most > b.config.Prefetch {
			b.Errorf("%d channels at once", most)
		}
		_ = end(errCut)
	})
}

func TestAQuickCopyNeedsNoChannelOfItsOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		all := b.deliveries(spoilt(), spoilt(), aMessage())
		for i := range all {
			all[i].Redelivered = true
		}
		queue := newFakeQueue(all...)
		end := b.take(queue)
		b.wantCounts(map[string]int{"ack": 3})
		if prefetches, _, _ := queue.opened(); len(prefetches) != 1 {
			b.Errorf("prefetches %v", prefetches)
		}
		_ = end(errCut)
	})
}

// TestP9AnUnreadableMessageTakesTheTrustAway: it is one of those that are out.
func TestP9AnUnreadableMessageTakesTheTrustAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		for cause, trusted := range map[error]bool{errCut: true, rabbitmq.ErrUnreadable: false} {
			b.consumer.trusted.Store(true)
			_ = b.take(newFakeQueue())(cause)
			if b.consumer.trusted.Load() != trusted {
				b.Errorf("trusted after %q: %t", cause, !trusted)
			}
		}
	})
}
