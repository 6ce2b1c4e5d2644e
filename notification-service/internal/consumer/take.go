package consumer

import (
	"context"
	"errors"

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
		c.awaitMessages(c.finish)
	}
	return err
}

// takeOneByOne takes one message at a time until one has earned the trust. A message that
// only waits, for its copy or for what others meet, keeps its place, on a channel that gets no more, and the next
// one is taken on another channel.
func (c *Consumer) takeOneByOne(ctx context.Context, queue Queue) error {
	for !c.trusted.Load() && ctx.Err() == nil {
		if err := c.takeOne(ctx, queue); err != nil {
			return err
		}
	}
	return nil
}

func (c *Consumer) takeOne(ctx context.Context, queue Queue) error {
	deliveries, err := queue.Consume(1)
	if err != nil {
		return err
	}
	defer deliveries.Stop()
	for !c.trusted.Load() {
		d, err := deliveries.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		m := c.start(ctx, d)
		select {
		case <-m.done:
		case <-m.waiting:
			return nil
		}
	}
	return nil
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
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer close(m.done)
		if c.handle(ctx, m) && !d.Redelivered {
			c.trusted.Store(true)
		}
	}()
	return m
}
