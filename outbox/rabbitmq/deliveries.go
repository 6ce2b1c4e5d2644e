package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Deliveries receives messages from one queue.
type Deliveries struct {
	session *Session
	channel *amqp.Channel
	tag     string
	arrived chan *Delivery
}

// ErrCancelled says that no more messages will come: the queue was deleted, the broker cancelled
// the consumer, or the channel closed. If the queue was deleted, channel and connection stay open,
// so this error is the only sign of it.
var ErrCancelled = errors.New("the broker ended the deliveries")

// Consume starts to receive messages from queue. At most prefetch of them are unacknowledged at any
// time.
func (s *Session) Consume(queue string, prefetch int) (*Deliveries, error) {
	defer s.closeAfter(answerTimeout)()
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
	// The channel has room for the whole prefetch, so receive never blocks.
	c := &Deliveries{session: s, channel: channel, tag: tag, arrived: make(chan *Delivery, prefetch)}
	s.watchers.Go(func() { c.receive(deliveries) })
	return c, nil
}

// receive records when each message arrives. The broker's consumer timeout begins then, and not
// when Next returns the message.
func (c *Deliveries) receive(deliveries <-chan amqp.Delivery) {
	defer close(c.arrived)
	acks := newAcknowledger(c.channel)
	for d := range deliveries {
		m := messageOf(d)
		if len(m.Body) > MaxBody {
			m.Body = nil // many of them would not fit into the memory
		}
		acks.track(d.DeliveryTag)
		c.arrived <- &Delivery{
			Message: m, Size: len(d.Body), Redelivered: d.Redelivered, Arrived: time.Now(),
			Ack:     func() error { return acks.ack(d.DeliveryTag) },
			Reject:  func() error { return acks.settleWith(d.DeliveryTag, func() error { return d.Reject(false) }) },
			Requeue: func() error { return acks.settleWith(d.DeliveryTag, func() error { return d.Nack(false, true) }) },
			acks:    acks, tag: d.DeliveryTag,
		}
	}
}

// Stop ends the deliveries. Messages that Next has returned may still be acknowledged. Messages
// that have arrived and that Next has not returned are requeued.
func (c *Deliveries) Stop() {
	defer c.session.closeAfter(answerTimeout)()
	if c.channel.Cancel(c.tag, false) != nil {
		return // the session has ended, so the broker requeues all messages
	}
	for d := range c.arrived {
		_ = d.Requeue()
	}
}

// Close closes the channel. The broker requeues all messages that are not acknowledged.
func (c *Deliveries) Close() {
	defer c.session.closeAfter(answerTimeout)()
	_ = c.channel.Close()
}

// Delivery is a message that must be acknowledged, rejected or requeued.
type Delivery struct {
	Message
	Size        int // of the body, in bytes. Message has no body if Size is more than MaxBody
	Redelivered bool
	Arrived     time.Time // by this process's clock, for durations
	// Ack tells the broker to delete the message. It fails if the session has ended. Then the broker
	// delivers the message again.
	Ack func() error
	// Reject tells the broker to dead-letter the message itself, unchanged and without our reason.
	Reject func() error
	// Requeue returns the message to its queue.
	Requeue func() error

	acks *acknowledger
	tag  uint64
}

// ackAll acknowledges messages of one channel, as a rule with one frame.
func ackAll(batch []Delivery) error {
	if len(batch) == 0 {
		return nil
	}
	tags := make([]uint64, len(batch))
	for i, d := range batch {
		tags[i] = d.tag
	}
	return batch[0].acks.ack(tags...)
}

// Next waits for a message. It may be called from several goroutines.
func (c *Deliveries) Next(ctx context.Context) (Delivery, error) {
	// Check the context first: select would choose at random between its end and a message.
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

// nextBatch waits for a message, and adds those that have arrived by then.
func (c *Deliveries) nextBatch(ctx context.Context, limit int) ([]Delivery, error) {
	d, err := c.Next(ctx)
	if err != nil {
		return nil, err
	}
	batch := []Delivery{d}
	for len(batch) < limit {
		select {
		case next, open := <-c.arrived:
			if !open {
				return batch, nil // the next call says why
			}
			batch = append(batch, *next)
		default:
			return batch, nil
		}
	}
	return batch, nil
}
