package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Consumer takes messages from one queue.
type Consumer struct {
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
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
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consuming from %s: %w", queue, err)
	}
	return &Consumer{channel: channel, deliveries: deliveries}, nil
}

// Delivery is a message that the broker waits to hear of.
type Delivery struct {
	Message
	Redelivered bool
	// Ack tells the broker to forget the message. It fails on a session that has
	// ended, and the broker delivers the message again.
	Ack func() error
	// Reject tells the broker to dead-letter the message itself: unchanged, and
	// without a word why.
	Reject func() error
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
	case d, ok := <-c.deliveries:
		if !ok {
			return Delivery{}, ErrCancelled
		}
		return Delivery{
			Message: messageOf(d), Redelivered: d.Redelivered,
			Ack:    func() error { return d.Ack(false) },
			Reject: func() error { return d.Reject(false) },
		}, nil
	}
}
