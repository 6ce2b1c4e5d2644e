package consumer

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Queue is where messages come from. At most prefetch of them are unacknowledged at any time.
type Queue interface {
	Consume(prefetch int) (Deliveries, error)
}

// Deliveries are the messages that the broker delivers on one channel.
type Deliveries interface {
	Next(ctx context.Context) (rabbitmq.Delivery, error)
	// Stop ends the deliveries. Those that came may still be acknowledged.
	Stop()
	// Close gives back every message that is not acknowledged.
	Close()
}

// Consume handles the messages of one session until ctx ends, each in a goroutine of its own.
// It returns an error when no more messages will come.
//
// If the session ended, an e-mail that is being sent goes on. Its message comes again in the
// next session, and waits for it. If the consumer is asked to stop, Consume returns after the
// messages in flight, so that they can be acknowledged.
func (c *Consumer) Consume(ctx context.Context, queue Queue) error {
	c.metrics.up.Set(1)
	defer c.metrics.up.Set(0)
	err := c.consumeOneByOne(ctx, queue)
	if err == nil && ctx.Err() == nil {
		err = c.consumeAll(ctx, queue)
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, rabbitmq.ErrUnreadable):
		c.mayPrefetch.Store(false) // one of the messages ends sessions: find out which
	case errors.Is(cause, context.Canceled):
		c.awaitMessages(c.finish) //nolint:contextcheck // ctx has ended
	}
	return err
}

// consumeOneByOne takes one message at a time until c.mayPrefetch is set. A message that does
// nothing but wait, for its copy, for its mark or for the results of other messages, cannot crash
// the process; nor does one whose e-mail takes longer than slowEmail, as a rule.
// So the next message is taken meanwhile, on another channel. The waiting message keeps its
// channel, and no more messages come on that one. At most as many messages wait as the prefetch
// allows.
func (c *Consumer) consumeOneByOne(ctx context.Context, queue Queue) error {
	places := make(chan struct{}, c.config.Prefetch)
	for !c.mayPrefetch.Load() {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if err := c.consumeChannel(ctx, queue, func() { <-places }); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// shortWait is how long a message may wait before the next one gets a channel of its own. Most
// copies are made within milliseconds.
const shortWait = 250 * time.Millisecond

// consumeChannel takes messages from one channel until one of them only waits. When that one is
// done, it closes the channel and calls free.
func (c *Consumer) consumeChannel(ctx context.Context, queue Queue, free func()) error {
	deliveries, err := queue.Consume(1)
	if err != nil {
		return err
	}
	d, err := c.consumeUntilWaiting(ctx, deliveries)
	if d == nil {
		deliveries.Close()
		free()
		return err
	}
	deliveries.Stop()
	c.running.Go(func() {
		<-d.done
		deliveries.Close()
		free()
	})
	return nil
}

// consumeUntilWaiting returns the message that only waits, if there is one.
func (c *Consumer) consumeUntilWaiting(ctx context.Context, deliveries Deliveries) (*delivery, error) {
	for !c.mayPrefetch.Load() {
		next, err := deliveries.Next(ctx)
		if ctx.Err() != nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if d := c.start(ctx, next); d.isWaiting() {
			return d, nil
		}
	}
	return nil, nil
}

// isWaiting returns true when d only waits, and longer than shortWait. It returns false when d
// is done.
func (d *delivery) isWaiting() bool {
	select {
	case <-d.done:
		return false
	case <-d.waiting:
	}
	select {
	case <-d.done:
		return false
	case <-time.After(shortWait):
		return true
	}
}

func (c *Consumer) consumeAll(ctx context.Context, queue Queue) error {
	deliveries, err := queue.Consume(c.config.Prefetch)
	if err != nil {
		return err
	}
	defer deliveries.Stop()
	for {
		next, err := deliveries.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c.start(ctx, next)
	}
}

// start handles a delivery in a goroutine of its own.
func (c *Consumer) start(ctx context.Context, delivered rabbitmq.Delivery) *delivery {
	d := newDelivery(ctx, delivered)
	c.running.Go(func() {
		defer close(d.done)
		if c.handle(ctx, d) && !d.Redelivered {
			c.mayPrefetch.Store(true)
		}
	})
	return d
}
