package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Consumer takes messages from one queue.
type Consumer struct {
	session *Session
	channel *amqp.Channel
	tag     string
	arrived chan *Delivery
}

// ErrCancelled says that no more messages will come: the queue was deleted, the
// broker cancelled the consumer, or the channel closed. A deleted queue leaves
// channel and connection open, so this is the only sign of it.
var ErrCancelled = errors.New("the broker ended the deliveries")

// Consume starts taking messages from queue; at most prefetch of them are out
// unacknowledged at any time.
func (s *Session) Consume(queue string, prefetch int) (*Consumer, error) {
	defer s.breakAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return nil, fmt.Errorf("setting the prefetch: %w", err)
	}
	tag := fmt.Sprintf("messages-%d", s.consumers.Add(1))
	deliveries, err := channel.Consume(queue, tag, false, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consuming from %s: %w", queue, err)
	}
	// As wide as what can be out: the pump never waits for a reader.
	c := &Consumer{session: s, channel: channel, tag: tag, arrived: make(chan *Delivery, prefetch)}
	s.watchers.Go(func() { c.pump(deliveries) })
	return c, nil
}

// pump notes when each message arrives. The broker's consumer timeout begins then, and not when
// Next returns the message.
func (c *Consumer) pump(deliveries <-chan amqp.Delivery) {
	defer close(c.arrived)
	for d := range deliveries {
		m := messageOf(d)
		if len(m.Body) > MaxBody {
			m.Body = nil // many of them would not fit into the memory
		}
		c.arrived <- &Delivery{
			Message: m, Size: len(d.Body), Redelivered: d.Redelivered, Arrived: time.Now(),
			Ack:    func() error { return d.Ack(false) },
			Reject: func() error { return d.Reject(false) }, Requeue: func() error { return d.Nack(false, true) },
		}
	}
}

// Stop ends the deliveries. What is out stays out, and may be acknowledged. What has come
// and was not asked for by Next goes back to the queue.
func (c *Consumer) Stop() {
	defer c.session.breakAfter(answerTimeout)()
	if c.channel.Cancel(c.tag, false) != nil {
		return // the session has ended, and with it everything is given back
	}
	for d := range c.arrived {
		_ = d.Requeue()
	}
}

// Close gives everything back that is not acknowledged.
func (c *Consumer) Close() {
	defer c.session.breakAfter(answerTimeout)()
	_ = c.channel.Close()
}

// Delivery is a message that the broker waits to hear of.
type Delivery struct {
	Message
	Size        int // of the body, in bytes. A body of more than MaxBody is left out of Message
	Redelivered bool
	Arrived     time.Time // by this process's clock, for durations
	// Ack tells the broker to forget the message. It fails on a session that has
	// ended, and the broker delivers the message again.
	Ack func() error
	// Reject tells the broker to dead-letter the message itself: unchanged, and
	// without a word why.
	Reject func() error
	// Requeue gives the message back to its queue.
	Requeue func() error
}

// Next waits for a message. It may be called from several goroutines.
func (c *Consumer) Next(ctx context.Context) (Delivery, error) {
	// An ended context first: select would choose between it and a message by chance.
	if ctx.Err() != nil {
		return Delivery{}, context.Cause(ctx)
	}
	select {
	case <-ctx.Done():
		return Delivery{}, context.Cause(ctx)
	case d, ok := <-c.arrived:
		if !ok {
			c.session.awaitReason()
			return Delivery{}, ErrCancelled
		}
		return *d, nil
	}
}
