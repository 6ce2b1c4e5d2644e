package consumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// consume takes messages from the queue until the session ends with the cause. end returns what
// Consume returned.
func (b *fixture) consume(queue *fakeQueue) (end func(cause error) error) {
	ctx, cancel := context.WithCancelCause(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.consumer.Consume(ctx, queue) }()
	synctest.Wait()
	return func(cause error) error {
		cancel(cause)
		return <-ended
	}
}

func (b *fixture) deliveries(messages ...rabbitmq.Message) (all []rabbitmq.Delivery) {
	for _, m := range messages {
		all = append(all, b.delivery(m))
	}
	return all
}

func newMessages(n int) (messages []rabbitmq.Message) {
	for range n {
		messages = append(messages, newMessage())
	}
	return messages
}

var errCut = errors.New("the connection closed")

func TestConsumeHandlesEveryDelivery(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		end := b.consume(newFakeQueue(b.deliveries(newMessages(50)...)...))
		b.wantCounts(map[string]int{"ack": 50})
		if err := end(errCut); err != nil {
			b.Error(err)
		}
	})
}

func TestConsumeReturnsWhenNoMoreCome(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		for _, trusted := range []bool{false, true} {
			b.consumer.mayPrefetch.Store(trusted)
			queue := newFakeQueue()
			close(queue.over)
			if err := b.consumer.Consume(b.Context(), queue); !errors.Is(err, rabbitmq.ErrCancelled) {
				b.Errorf("error %v, want %v", err, rabbitmq.ErrCancelled)
			}
		}
	})
}

// TestP9OneMessageAtATimeUntilANewOneSucceeds: the broker counts the death of
// the process against every unacknowledged message.
func TestP9OneMessageAtATimeUntilANewOneSucceeds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.effect.send = func(context.Context, notification.Notification) error { time.Sleep(time.Second); return nil }
		all := b.deliveries(newMessages(20)...)
		all[0].Redelivered, all[1].Redelivered = true, true
		queue := newFakeQueue(all...)
		end := b.consume(queue)
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

		end = b.consume(queue) // the next session of the same process prefetches at once
		if prefetches, _, _ := queue.opened(); !slices.Equal(prefetches, []int{1, b.config.Prefetch, b.config.Prefetch}) {
			b.Errorf("prefetches %v", prefetches)
		}
		_ = end(errCut)
	})
}

// TestP9WaitingCopiesDoNotBlockTheStart: each has a channel of its own.
func TestP9WaitingCopiesDoNotBlockTheStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.publisher.fails(always(errFailed))
		queue := newFakeQueue(b.deliveries(malformedMessage(), malformedMessage(), malformedMessage(), newMessage(), newMessage())...)
		end := b.consume(queue)
		time.Sleep(4 * shortWait)
		b.wantCounts(map[string]int{"ack": 2, "requeued": 0})
		if prefetches, open, _ := queue.opened(); !slices.Equal(prefetches, []int{1, 1, 1, 1, b.config.Prefetch}) || open != 4 {
			b.Errorf("prefetches %v, %d channels are open; want 3 for the copies, and the one for all", prefetches, open)
		}
		b.publisher.fails(nil)
		time.Sleep(maxCopyPause)
		b.wantCounts(map[string]int{"ack": 5})
		if _, open, _ := queue.opened(); open != 1 {
			b.Errorf("%d channels are open when the copies are made, want 1", open)
		}
		_ = end(errCut)
	})
}

// TestP9ASlowFirstEmailDelaysNoOther: the mail server may take 15 minutes for one recipient.
func TestP9ASlowFirstEmailDelaysNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		slow := newMessage()
		b.effect.send = func(_ context.Context, n notification.Notification) error {
			if n.MessageID.String() == slow.ID {
				time.Sleep(15 * time.Minute)
			}
			return nil
		}
		end := b.consume(newFakeQueue(b.deliveries(slow, newMessage(), newMessage())...))
		time.Sleep(time.Minute)
		b.wantCounts(map[string]int{"ack": 2})
		time.Sleep(15 * time.Minute)
		b.wantCounts(map[string]int{"ack": 3})
		_ = end(errCut)
	})
}

// TestP9AFirstEmailThatCannotBeMarkedDelaysNoOther: its mark waits for the database, but a dead
// letter needs no database.
func TestP9AFirstEmailThatCannotBeMarkedDelaysNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		database := make(chan struct{})
		b.effect.mark = func(context.Context, notification.Notification) error { <-database; return nil }
		end := b.consume(newFakeQueue(b.deliveries(newMessage(), malformedMessage())...))
		b.wantCounts(map[string]int{"send": 1, "ack": 0})
		time.Sleep(2 * shortWait)
		b.wantCounts(map[string]int{"ack": 1})
		close(database)
		synctest.Wait()
		b.wantCounts(map[string]int{"ack": 2})
		_ = end(errCut)
	})
}

func TestAtTheStartAsManyCopiesWaitAsThePrefetch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		b.publisher.fails(always(errFailed))
		var bad []rabbitmq.Message
		for range 100 {
			bad = append(bad, malformedMessage())
		}
		queue := newFakeQueue(b.deliveries(bad...)...)
		end := b.consume(queue)
		time.Sleep(time.Minute)
		b.wantCounts(map[string]int{"parse": b.config.Prefetch})
		b.publisher.fails(nil)
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
	inBubble(t, func(b *fixture) {
		all := b.deliveries(malformedMessage(), malformedMessage(), newMessage())
		for i := range all {
			all[i].Redelivered = true
		}
		queue := newFakeQueue(all...)
		end := b.consume(queue)
		b.wantCounts(map[string]int{"ack": 3})
		if prefetches, _, _ := queue.opened(); len(prefetches) != 1 {
			b.Errorf("prefetches %v", prefetches)
		}
		_ = end(errCut)
	})
}

// TestP9AnUnreadableMessageEndsThePrefetch: one of the unacknowledged messages ends sessions.
func TestP9AnUnreadableMessageEndsThePrefetch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		for cause, trusted := range map[error]bool{errCut: true, rabbitmq.ErrUnreadable: false} {
			b.consumer.mayPrefetch.Store(true)
			_ = b.consume(newFakeQueue())(cause)
			if b.consumer.mayPrefetch.Load() != trusted {
				b.Errorf("trusted after %q: %t", cause, !trusted)
			}
		}
	})
}
