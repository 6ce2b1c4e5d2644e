package rabbitmq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrNoQueue says that the broker has no queue of that name.
var ErrNoQueue = errors.New("the broker has no such queue")

// Browser reads the messages of a queue. Other consumers do not see a message that it has read,
// until the message is removed or given back. If the session breaks, the broker requeues it.
//
// It gets the first messages one at a time, because most readers want only some. Later it gets
// several at a time, see browse_fetch.go.
type Browser struct {
	session   *Session
	channel   *amqp.Channel
	queue     string
	count     int
	remaining int      // how many messages Next may still get
	held      []uint64 // the numbers of what is in its hands, ascending

	fetched []amqp.Delivery // taken from the queue, and not returned by Next yet
	taken   int             // how many messages it has taken
	largest int             // the largest body so far, in bytes
}

// BrowsedMessage is a message that a Browser has read.
type BrowsedMessage struct {
	Message
	// Remove deletes the message from the queue. It is certain that the broker has deleted it when
	// Removed or Requeue returns nil.
	Remove func() error
}

// Browse opens a channel to read the messages that are ready in the queue now.
func (s *Session) Browse(queue string) (*Browser, error) {
	defer s.closeAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	b := &Browser{session: s, channel: channel, queue: queue}
	if b.count, err = b.countReady(); err != nil {
		return nil, err
	}
	b.remaining = b.count
	return b, nil
}

// countReady returns the number of ready messages. Messages that are delivered but not yet
// acknowledged do not count.
func (b *Browser) countReady() (int, error) {
	defer b.session.closeAfter(answerTimeout)()
	queue, err := b.channel.QueueDeclarePassive(b.queue, true, false, false, false, nil)
	if err != nil {
		return 0, b.explain(err)
	}
	return queue.Messages, nil
}

func (b *Browser) explain(err error) error {
	var reason *amqp.Error
	if errors.As(err, &reason) && reason.Code == amqp.NotFound {
		return fmt.Errorf("%w: %s", ErrNoQueue, b.queue)
	}
	return fmt.Errorf("looking through %s: %w", b.queue, err)
}

// Count returns how many messages were ready when the browsing began.
func (b *Browser) Count() int { return b.count }

// Next gets the next message. It returns false after as many messages as there were at the
// beginning. Otherwise it might never end in a queue that fills as fast as it is read.
func (b *Browser) Next() (BrowsedMessage, bool, error) {
	if b.remaining == 0 {
		return BrowsedMessage{}, false, nil
	}
	if len(b.fetched) == 0 {
		if err := b.fetch(); err != nil {
			return BrowsedMessage{}, false, b.explain(err)
		}
	}
	if len(b.fetched) == 0 {
		b.remaining = 0 // other consumers have the rest
		return BrowsedMessage{}, false, nil
	}
	d := b.fetched[0]
	b.fetched[0] = amqp.Delivery{} // its body may be large
	b.fetched = b.fetched[1:]
	b.remaining--
	return BrowsedMessage{Message: messageOf(d), Remove: b.removeFunc(d.DeliveryTag)}, true, nil
}

// removeFunc keeps only the delivery tag, because the message may be large.
func (b *Browser) removeFunc(tag uint64) func() error {
	return func() error {
		if i, found := slices.BinarySearch(b.held, tag); found {
			b.held = slices.Delete(b.held, i, i+1)
		}
		return b.channel.Ack(tag, false)
	}
}

// Removed returns nil when the broker has processed all removals so far. It asks something on the
// same channel, and the broker answers in order.
func (b *Browser) Removed() error {
	_, err := b.countReady()
	return err
}

const (
	// requeueBatch is how many messages a quorum queue requeues in their order. It stores more
	// messages in a map, and Erlang's large maps have no order.
	requeueBatch = 32
	// requeueTimeout limits the wait until requeued messages are ready.
	requeueTimeout = time.Second
)

// Requeue requeues all messages that were not removed, and ends the browsing. The order in the
// queue is unchanged if the whole queue was read and nothing was removed. Otherwise the broker
// may change it.
//
// It requeues explicitly. If only the channel ended, RabbitMQ 4.3 would count the deliveries
// towards the queue's delivery limit.
func (b *Browser) Requeue() error {
	ready, err := b.countReady()
	complete := true // the broker has shown every batch in the queue
	for batch := range slices.Chunk(b.held, requeueBatch) {
		if err == nil {
			err = b.channel.Nack(batch[len(batch)-1], true, true)
		}
		ready += len(batch)
		complete = complete && err == nil && b.awaitReady(ready)
	}
	b.held, b.fetched = nil, nil
	return errors.Join(err, b.close())
}

// awaitReady waits until the broker has stored the requeued messages and counts them as ready. If
// other consumers get messages meanwhile, this may never happen.
func (b *Browser) awaitReady(want int) bool {
	for deadline := time.Now().Add(requeueTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ready, err := b.countReady(); err != nil || ready >= want {
			return err == nil
		}
	}
	return false
}

// close returns when the broker has processed everything that was sent before.
func (b *Browser) close() error {
	defer b.session.closeAfter(answerTimeout)()
	if err := b.channel.Close(); err != nil {
		return b.explain(err)
	}
	return nil
}
