package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Deliveries receives messages from one queue, on a channel of its own.
type Deliveries struct {
	session *Session
	channel *amqp.Channel
	queue   string
	tag     string        // of this Start
	arrived chan Delivery // since this Start
}

// ErrCancelled says that no more messages will come: the queue was deleted, the broker cancelled
// the consumer, or the channel closed. If the queue was deleted, channel and connection stay open,
// so this error is the only sign of it.
var ErrCancelled = errors.New("the broker ended the deliveries")

// Deliveries opens a channel for the messages of a queue. They come after Start.
func (s *Session) Deliveries(queue string) (*Deliveries, error) {
	defer s.closeAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	return &Deliveries{session: s, channel: channel, queue: queue}, nil
}

// Start begins to receive messages, also again after Stop. At most prefetch of those that come from
// now on are unacknowledged at any time.
func (d *Deliveries) Start(prefetch int) error {
	defer d.session.closeAfter(answerTimeout)()
	if err := d.channel.Qos(prefetch, 0, false); err != nil {
		return fmt.Errorf("setting the prefetch: %w", err)
	}
	d.tag = fmt.Sprintf("messages-%d", d.session.consumers.Add(1))
	deliveries, err := d.channel.Consume(d.queue, d.tag, false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consuming from %s: %w", d.queue, err)
	}
	// The channel has room for the whole prefetch, so receive never blocks.
	arrived := make(chan Delivery, prefetch)
	d.arrived = arrived
	d.session.watchers.Go(func() { d.receive(deliveries, arrived) })
	return nil
}

func (d *Deliveries) receive(deliveries <-chan amqp.Delivery, arrived chan<- Delivery) {
	defer close(arrived)
	for r := range deliveries {
		m := messageOf(r)
		if len(m.Body) > MaxBody {
			m.Body = nil // many of them would not fit into the memory
		}
		arrived <- Delivery{Message: m, Size: len(r.Body), Redelivered: r.Redelivered, arrived: time.Now(), channel: d.channel, tag: r.DeliveryTag}
	}
}

// Stop ends the deliveries. Messages that Next has returned may still be acknowledged. Messages
// that have arrived and that Next has not returned are requeued.
func (d *Deliveries) Stop() {
	defer d.session.closeAfter(answerTimeout)()
	if d.channel.Cancel(d.tag, false) != nil {
		return // the session has ended, so the broker requeues all messages
	}
	for m := range d.arrived {
		_ = m.Requeue()
	}
}

// Close closes the channel. The broker requeues all messages that are not acknowledged.
func (d *Deliveries) Close() {
	defer d.session.closeAfter(answerTimeout)()
	_ = d.channel.Close()
}

// Delivery is a message that must be acknowledged, rejected or requeued.
type Delivery struct {
	Message
	Size        int // of the body, in bytes. Message has no body if Size is more than MaxBody
	Redelivered bool

	arrived time.Time
	channel *amqp.Channel
	tag     uint64
}

// Ack tells the broker to delete the message. It fails if the session has ended. Then the broker
// delivers the message again.
func (d Delivery) Ack() error { return d.channel.Ack(d.tag, false) }

// ackAllBefore also acknowledges all messages that were delivered before.
func (d Delivery) ackAllBefore() error { return d.channel.Ack(d.tag, true) }

// Reject tells the broker to dead-letter the message itself, unchanged and without our reason.
func (d Delivery) Reject() error { return d.channel.Reject(d.tag, false) }

// Requeue returns the message to its queue.
func (d Delivery) Requeue() error { return d.channel.Nack(d.tag, false, true) }

// Next waits for a message. It may be called from several goroutines.
func (d *Deliveries) Next(ctx context.Context) (Delivery, error) {
	// Check the context first: select would choose at random between its end and a message.
	if ctx.Err() != nil {
		return Delivery{}, context.Cause(ctx)
	}
	select {
	case <-ctx.Done():
		return Delivery{}, context.Cause(ctx)
	case m, ok := <-d.arrived:
		if !ok {
			d.session.awaitReason()
			return Delivery{}, ErrCancelled
		}
		return m, nil
	}
}

// nextBatch waits for a message, and adds those that have arrived by then.
func (d *Deliveries) nextBatch(ctx context.Context, limit int) ([]Delivery, error) {
	first, err := d.Next(ctx)
	if err != nil {
		return nil, err
	}
	batch := []Delivery{first}
	for len(batch) < limit {
		select {
		case next, open := <-d.arrived:
			if !open {
				return batch, nil // the next call says why
			}
			batch = append(batch, next)
		default:
			return batch, nil
		}
	}
	return batch, nil
}
