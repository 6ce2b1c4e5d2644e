package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// fakeQueue gives what it has and then ends.
type fakeQueue struct {
	mu         sync.Mutex
	left       []rabbitmq.Delivery
	prefetches []int
}

func (f *fakeQueue) add(d rabbitmq.Delivery) { f.left = append(f.left, d) }

func (f *fakeQueue) Consume(prefetch int) (Deliveries, error) {
	f.prefetches = append(f.prefetches, prefetch)
	return f, nil
}

func (f *fakeQueue) Next(context.Context) (rabbitmq.Delivery, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.left) == 0 {
		return rabbitmq.Delivery{}, rabbitmq.ErrCancelled
	}
	d := f.left[0]
	f.left = f.left[1:]
	return d, nil
}

func (*fakeQueue) Close() {}

func TestRunHandlesEveryDeliveryAndSaysThatNoMoreCome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var queue fakeQueue
	for range 20 {
		queue.add(b.delivery(b.message()))
	}
	if err := b.consumer().Run(t.Context(), &queue); !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Errorf("error %v, want %v", err, rabbitmq.ErrCancelled)
	}
	if n := b.count("ack"); n != 20 {
		t.Errorf("%d acks, want 20", n)
	}
}

// TestP9OneMessageAtATimeUntilOneHasEarnedTheTrust: the broker counts the death of the
// process for every message that is out.
func TestP9OneMessageAtATimeUntilOneHasEarnedTheTrust(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var queue fakeQueue
	for _, redelivered := range []bool{true, true, false, true, false} {
		d := b.delivery(b.message())
		d.Redelivered = redelivered
		queue.add(d)
	}
	atTrust := 0
	c := b.consumer()
	observed := observedQueue{fakeQueue: &queue, onConsume: func() { atTrust = b.count("ack") }}
	if err := c.Run(t.Context(), observed); !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Error(err)
	}
	if !slices.Equal(queue.prefetches, []int{1, b.config.Prefetch}) || atTrust != 3 {
		t.Errorf("prefetches %v, the last after %d messages; want 1, and %d after 3", queue.prefetches, atTrust, b.config.Prefetch)
	}
	// The next session of the same process goes on with all workers.
	if err := c.Run(t.Context(), &queue); !errors.Is(err, rabbitmq.ErrCancelled) {
		t.Error(err)
	}
	if last := queue.prefetches[len(queue.prefetches)-1]; last != b.config.Prefetch {
		t.Errorf("the next session begins with a prefetch of %d", last)
	}
}

// observedQueue tells when it is asked for deliveries.
type observedQueue struct {
	*fakeQueue
	onConsume func()
}

func (o observedQueue) Consume(prefetch int) (Deliveries, error) {
	o.onConsume()
	return o.fakeQueue.Consume(prefetch)
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := b.consumer().Run(ctx, &fakeQueue{}); err != nil {
		t.Error(err)
	}
}
