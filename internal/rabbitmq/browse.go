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

// Browser looks through a queue. What it takes is hidden from others until it is
// removed or given back; when the session breaks, the broker takes it back itself.
//
// It gets message by message, where a consumer would be sent the next ones before
// anybody knows whether they are wanted.
type Browser struct {
	session *Session
	channel *amqp.Channel
	queue   string
	count   int
	left    int      // to be taken yet
	held    []uint64 // the numbers of what is in its hands, ascending
}

// Taken is a message in the hands of a Browser.
type Taken struct {
	Message
	// Remove deletes the message from the queue. Whether the broker has heard of it is
	// known when GiveBack returns nil.
	Remove func() error
}

// Browse opens a channel to look through the messages that are in the queue now, and
// in nobody's hands.
func (s *Session) Browse(queue string) (*Browser, error) {
	defer s.breakAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	b := &Browser{session: s, channel: channel, queue: queue}
	if b.count, err = b.ready(); err != nil {
		return nil, err
	}
	b.left = b.count
	return b, nil
}

// ready is how many messages are in the queue and in nobody's hands.
func (b *Browser) ready() (int, error) {
	defer b.session.breakAfter(answerTimeout)()
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

// Count is how many messages there were when the browsing began.
func (b *Browser) Count() int { return b.count }

// Next takes the next message. It is false behind the last one of those that there
// were at the beginning: in a queue that fills as fast as it is read there would be
// no other end.
func (b *Browser) Next() (Taken, bool, error) {
	if b.left == 0 {
		return Taken{}, false, nil
	}
	defer b.session.breakAfter(answerTimeout)()
	d, ok, err := b.channel.Get(b.queue, false)
	if err != nil {
		return Taken{}, false, b.explain(err)
	}
	if !ok {
		b.left = 0 // others have the rest
		return Taken{}, false, nil
	}
	b.left--
	b.held = append(b.held, d.DeliveryTag)
	return Taken{Message: messageOf(d), Remove: b.remover(d.DeliveryTag)}, true, nil
}

// remover keeps the number of a message, and not the message: that may be large.
func (b *Browser) remover(tag uint64) func() error {
	return func() error {
		if i, found := slices.BinarySearch(b.held, tag); found {
			b.held = slices.Delete(b.held, i, i+1)
		}
		return b.channel.Ack(tag, false)
	}
}

const (
	// orderly is how many messages a quorum queue takes back in their order. Of more at
	// once it makes a map, and Erlang's large maps have none.
	orderly = 32
	// unseen is how long it may take until what was given back is seen.
	unseen = time.Second
)

// GiveBack puts all that was not removed back into the queue, and ends the browsing.
// After a look through the whole queue that removed nothing, the order is what it was;
// else the broker may change it.
//
// It gives back by name: what RabbitMQ 4.3 takes back from a channel that ends, it
// counts towards the queue's delivery limit, and what it is given back it does not.
func (b *Browser) GiveBack() error {
	ready, err := b.ready()
	alone := true // nobody else takes messages, as far as can be seen
	for batch := range slices.Chunk(b.held, orderly) {
		if err == nil {
			err = b.channel.Nack(batch[len(batch)-1], true, true)
		}
		ready += len(batch)
		alone = alone && err == nil && b.awaitReady(ready)
	}
	b.held = nil
	return errors.Join(err, b.close())
}

// awaitReady waits until the broker has written down what it was given back, and so
// shows it. Where others take messages meanwhile, that may never be seen.
func (b *Browser) awaitReady(want int) bool {
	for deadline := time.Now().Add(unseen); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ready, err := b.ready(); err != nil || ready >= want {
			return err == nil
		}
	}
	return false
}

// close returns when the broker has read everything that went before.
func (b *Browser) close() error {
	defer b.session.breakAfter(answerTimeout)()
	if err := b.channel.Close(); err != nil {
		return b.explain(err)
	}
	return nil
}
