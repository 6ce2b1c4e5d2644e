package consumer

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// Queue is where messages come from. At most prefetch of them are out at any time.
type Queue interface {
	Consume(prefetch int) (Deliveries, error)
}

// Deliveries are messages that are out.
type Deliveries interface {
	Next(ctx context.Context) (rabbitmq.Delivery, error)
	// Stop ends the deliveries. What is out stays out, and may be acknowledged.
	Stop()
	// Close gives everything back that is not acknowledged.
	Close()
}

// Take handles the messages of one session until ctx ends, each in a goroutine of its own.
// It returns an error when no more messages will come.
//
// When it was the session that ended, an e-mail that is being sent goes on: its message
// comes again in the next session, and waits for it. When the consumer is asked to end,
// Take returns after the messages in hand, so that they can be acknowledged.
func (c *Consumer) Take(ctx context.Context, queue Queue) error {
	c.metrics.up.Set(1)
	defer c.metrics.up.Set(0)
	err := c.takeOneByOne(ctx, queue)
	if err == nil && ctx.Err() == nil {
		err = c.takeTogether(ctx, queue)
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, rabbitmq.ErrUnreadable):
		c.trusted.Store(false) // one of the messages ends sessions: find out which
	case errors.Is(cause, context.Canceled):
		c.awaitMessages(c.finish) //nolint:contextcheck // ctx has ended
	}
	return err
}

// takeOneByOne takes one message at a time until one has earned the trust. A message that
// only waits, for its copy or for what others meet, keeps its place, on a channel that gets
// no more, and the next one is taken on another channel. So many may wait as the prefetch
// allows.
func (c *Consumer) takeOneByOne(ctx context.Context, queue Queue) error {
	places := make(chan struct{}, c.config.Prefetch)
	for !c.trusted.Load() {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if err := c.takeOne(ctx, queue, func() { <-places }); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// shortWait is how long a message may wait before the next one has a channel of its own:
// most copies are made within milliseconds.
const shortWait = 250 * time.Millisecond

// takeOne takes messages from one channel until one of them only waits. When that one is
// done, it closes the channel and calls leave.
func (c *Consumer) takeOne(ctx context.Context, queue Queue, leave func()) error {
	deliveries, err := queue.Consume(1)
	if err != nil {
		return err
	}
	m, err := c.takeUntilWait(ctx, deliveries)
	if m == nil {
		deliveries.Close()
		leave()
		return err
	}
	deliveries.Stop()
	c.running.Go(func() {
		<-m.done
		deliveries.Close()
		leave()
	})
	return nil
}

// takeUntilWait returns the message that only waits, if there is one.
func (c *Consumer) takeUntilWait(ctx context.Context, deliveries Deliveries) (*message, error) {
	for !c.trusted.Load() {
		d, err := deliveries.Next(ctx)
		if ctx.Err() != nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if m := c.start(ctx, d); m.waits() {
			return m, nil
		}
	}
	return nil, nil
}

// waits returns true when m only waits, and longer than a moment; false when it is done.
func (m *message) waits() bool {
	select {
	case <-m.done:
		return false
	case <-m.waiting:
	}
	select {
	case <-m.done:
		return false
	case <-time.After(shortWait):
		return true
	}
}

func (c *Consumer) takeTogether(ctx context.Context, queue Queue) error {
	deliveries, err := queue.Consume(c.config.Prefetch)
	if err != nil {
		return err
	}
	defer deliveries.Stop()
	for {
		d, err := deliveries.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c.start(ctx, d)
	}
}

// start handles a delivery in a goroutine of its own.
func (c *Consumer) start(ctx context.Context, d rabbitmq.Delivery) *message {
	m := &message{Delivery: d, waiting: make(chan struct{}), done: make(chan struct{})}
	c.running.Go(func() {
		defer close(m.done)
		if c.handle(ctx, m) && !d.Redelivered {
			c.trusted.Store(true)
		}
	})
	return m
}
