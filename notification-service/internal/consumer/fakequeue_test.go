package consumer

import (
	"context"
	"sync"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// fakeQueue delivers its messages over channels that keep their prefetch. It ends the deliveries
// when over is closed.
type fakeQueue struct {
	left chan rabbitmq.Delivery
	over chan struct{}

	mu         sync.Mutex
	prefetches []int
	open, most int // channels
}

func newFakeQueue(deliveries ...rabbitmq.Delivery) *fakeQueue {
	f := &fakeQueue{left: make(chan rabbitmq.Delivery, 1000), over: make(chan struct{})}
	for _, d := range deliveries {
		f.left <- d
	}
	return f
}

func (f *fakeQueue) Consume(prefetch int) (Deliveries, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prefetches = append(f.prefetches, prefetch)
	f.open++
	f.most = max(f.most, f.open)
	return &fakeChannel{queue: f, places: make(chan struct{}, prefetch)}, nil
}

// opened returns the prefetches, and how many channels are open now and were open at most.
func (f *fakeQueue) opened() (prefetches []int, open, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.prefetches, f.open, f.most
}

type fakeChannel struct {
	queue  *fakeQueue
	places chan struct{} // one for each unacknowledged message
}

func (f *fakeChannel) Next(ctx context.Context) (d rabbitmq.Delivery, err error) {
	select {
	case f.places <- struct{}{}:
	case <-f.queue.over:
		return d, rabbitmq.ErrCancelled
	case <-ctx.Done():
		return d, context.Cause(ctx)
	}
	select {
	case d = <-f.queue.left:
	case <-f.queue.over:
		return d, rabbitmq.ErrCancelled
	case <-ctx.Done():
		return d, context.Cause(ctx)
	}
	ack, requeue := d.Ack, d.Requeue
	d.Ack = func() error { <-f.places; return ack() }
	d.Requeue = func() error { <-f.places; return requeue() }
	return d, nil
}

func (*fakeChannel) Stop() {}

func (f *fakeChannel) Close() {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	f.queue.open--
}
