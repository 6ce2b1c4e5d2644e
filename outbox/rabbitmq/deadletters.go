package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
)

// DeadLetters reads the dead letters of a consumer's queue, and replays or discards them:
//
//	letters, err := session.DeadLetters(queue)
//	...
//	defer letters.Close()
//	for {
//		letter, ok, err := letters.Next()
//		if err != nil || !ok {
//			return err
//		}
//		if letter.ID == wanted {
//			return letters.Replay(ctx, letter, nil).Err
//		}
//	}
//
// To read a queue one must take its messages. So until Close, nobody else sees what Next has
// returned. If the process dies, or the session breaks, the broker puts all of it back.
//
// It gets the first messages one at a time, because most readers want only some. Later it gets
// several at a time, see fetch.
type DeadLetters struct {
	session   *Session
	channel   *amqp.Channel
	queue     Queue
	count     int
	remaining int      // how many messages Next may still get
	held      []uint64 // the numbers of what is in its hands, ascending

	fetched []amqp.Delivery // taken from the queue, and not returned by Next yet
	taken   int             // how many messages it has taken
	largest int             // the largest body so far, in bytes

	publisher *Publisher // nil before the first Replay
	confirmed func()     // for tests
}

// ErrNoQueue says that the broker has no queue of that name.
var ErrNoQueue = errors.New("the broker has no such queue")

// DeadLetters begins to read the dead letters that are in the queue now. Of q it needs only the
// name. The error may be [ErrNoQueue].
func (s *Session) DeadLetters(q Queue) (*DeadLetters, error) {
	defer s.closeAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	d := &DeadLetters{session: s, channel: channel, queue: q, confirmed: func() {}}
	if d.count, err = d.countReady(); err != nil {
		return nil, err
	}
	d.remaining = d.count
	return d, nil
}

// countReady returns the number of ready messages. Messages that are delivered but not yet
// acknowledged do not count.
func (d *DeadLetters) countReady() (int, error) {
	defer d.session.closeAfter(answerTimeout)()
	queue, err := d.channel.QueueDeclarePassive(d.queue.DeadLetterQueue(), true, false, false, false, nil)
	if err != nil {
		return 0, d.explain(err)
	}
	return queue.Messages, nil
}

func (d *DeadLetters) explain(err error) error {
	if isNotFound(err) {
		return fmt.Errorf("%w: %s", ErrNoQueue, d.queue.DeadLetterQueue())
	}
	return fmt.Errorf("looking through %s: %w", d.queue.DeadLetterQueue(), err)
}

// Count returns how many messages were ready at the beginning.
func (d *DeadLetters) Count() int { return d.count }

// Next returns the next dead letter. It returns false after as many messages as there were at the
// beginning. Otherwise it might never end in a queue that fills as fast as it is read.
func (d *DeadLetters) Next() (DeadLetter, bool, error) {
	if d.remaining == 0 {
		return DeadLetter{}, false, nil
	}
	if len(d.fetched) == 0 {
		if err := d.fetch(); err != nil {
			return DeadLetter{}, false, d.explain(err)
		}
	}
	if len(d.fetched) == 0 {
		d.remaining = 0 // other consumers have the rest
		return DeadLetter{}, false, nil
	}
	m := d.fetched[0]
	d.fetched[0] = amqp.Delivery{} // its body may be large
	d.fetched = d.fetched[1:]
	d.remaining--
	return deadLetterOf(m), true, nil
}

// A quorum queue writes each get to its log, which takes milliseconds. A consumer with a prefetch
// gets many messages for two entries in the log. With 10,000 messages that is seconds instead of
// nearly a minute.
const (
	oneByOne     = 32      // the first messages
	maxFetch     = 32      // at a time
	maxFetchSize = 4 << 20 // bytes at a time, if no message is larger than the largest so far
	// fetchPause is how long a consumer waits for a further message. A get tells for sure whether
	// there are more, so it may be short.
	fetchPause = 200 * time.Millisecond
)

// fetch takes at least one message, unless the queue has none for this reader.
func (d *DeadLetters) fetch() error {
	n := min(maxFetch, d.remaining)
	if d.largest > 0 {
		n = min(n, maxFetchSize/d.largest)
	}
	if d.taken >= oneByOne && n > 1 {
		if err := d.consume(n); err != nil || len(d.fetched) > 0 {
			return err
		}
	}
	defer d.session.closeAfter(answerTimeout)()
	m, ok, err := d.channel.Get(d.queue.DeadLetterQueue(), false)
	if ok {
		d.take(m)
	}
	return err
}

func (d *DeadLetters) take(m amqp.Delivery) {
	d.taken++
	d.largest = max(d.largest, len(m.Body))
	d.held, d.fetched = append(d.held, m.DeliveryTag), append(d.fetched, m)
}

// consume takes at most n messages with a consumer of its own. The consumer ends before a message
// is removed: after an ack it would get another one.
func (d *DeadLetters) consume(n int) error {
	tag := fmt.Sprintf("dead-letters-%d", d.session.consumers.Add(1))
	deliveries, err := d.beginConsuming(tag, n)
	if err != nil {
		return err
	}
	pause := time.NewTimer(fetchPause)
	defer pause.Stop()
	for waiting := true; waiting && n > 0; {
		select {
		case m, open := <-deliveries:
			if waiting = open; open {
				d.take(m)
				n--
				pause.Reset(fetchPause)
			}
		case <-pause.C:
			waiting = false
		}
	}
	defer d.session.closeAfter(answerTimeout)()
	err = d.channel.Cancel(tag, false)
	for m := range deliveries { // until the cancel closes it
		d.take(m)
	}
	return err
}

func (d *DeadLetters) beginConsuming(tag string, n int) (<-chan amqp.Delivery, error) {
	defer d.session.closeAfter(answerTimeout)()
	if err := d.channel.Qos(n, 0, false); err != nil {
		return nil, err
	}
	return d.channel.Consume(d.queue.DeadLetterQueue(), tag, false, false, false, false, nil)
}

// Discard deletes a dead letter. It is certain that the broker has deleted it when Removed or Close
// returns nil.
func (d *DeadLetters) Discard(l DeadLetter) error {
	if i, found := slices.BinarySearch(d.held, l.tag); found {
		d.held = slices.Delete(d.held, i, i+1)
	}
	return d.channel.Ack(l.tag, false)
}

// replayTimeout is how long the broker may take to confirm a copy.
const replayTimeout = 30 * time.Second

// Replay sends a dead letter to its consumer again, with all its retries: a copy, with these
// headers as well. It removes the dead letter when the broker has confirmed the copy. While the
// broker blocks its publishers, it waits until ctx ends.
//
// Confirmed means that both was done. After Unknown the message may be in both queues, with the
// same id. After any other outcome it is only where it was.
func (d *DeadLetters) Replay(ctx context.Context, l DeadLetter, headers map[string]any) publish.Result {
	if err := l.unreadable(); err != nil {
		return publish.Result{Outcome: publish.Invalid, Err: err} // the copy would have no headers
	}
	err := d.session.Unblocked(ctx)
	if err == nil && d.publisher == nil {
		d.publisher, err = d.session.NewPublisher(1)
	}
	if err != nil {
		return notSent(err)
	}
	result := publish.All(d.publisher, []Message{d.queue.replayOf(l, headers)}, replayTimeout)[0] //nolint:contextcheck // it has a timeout
	if result.Outcome != publish.Confirmed {
		return result
	}
	d.confirmed()
	if err := d.Discard(l); err != nil {
		return publish.Result{Outcome: publish.Unknown, Err: fmt.Errorf("it was sent and is still here: %w", err)}
	}
	return result
}

// replayOf returns a dead letter as it was before it failed.
func (q Queue) replayOf(l DeadLetter, headers map[string]any) Message {
	m := l.Copy()
	m.Exchange = q.requeueExchange()
	for _, header := range []string{RetryCountHeader, FirstFailedAtHeader, FailureCodeHeader, FailureReasonHeader, FailedAtHeader} {
		delete(m.Headers, header)
	}
	maps.Copy(m.Headers, headers)
	return m
}

// Removed returns nil when the broker has processed all removals so far. It asks something on the
// same channel, and the broker answers in order.
func (d *DeadLetters) Removed() error {
	_, err := d.countReady()
	return err
}

const (
	// requeueBatch is how many messages a quorum queue requeues in their order. It stores more
	// messages in a map, and Erlang's large maps have no order.
	requeueBatch = 32
	// requeueTimeout limits the wait until requeued messages are ready.
	requeueTimeout = time.Second
)

// Close gives back what was neither replayed nor discarded. The order in the queue is unchanged if
// the whole queue was read and nothing was removed. Otherwise the broker may change it.
//
// It requeues explicitly. If only the channel ended, RabbitMQ 4.3 would count the deliveries
// towards the queue's delivery limit.
func (d *DeadLetters) Close() error {
	if d.publisher != nil {
		d.publisher.Close()
	}
	ready, err := d.countReady()
	complete := true // the broker has shown every batch in the queue
	for batch := range slices.Chunk(d.held, requeueBatch) {
		if err == nil {
			err = d.channel.Nack(batch[len(batch)-1], true, true)
		}
		ready += len(batch)
		complete = complete && err == nil && d.awaitReady(ready)
	}
	d.held, d.fetched = nil, nil
	return errors.Join(err, d.closeChannel())
}

// awaitReady waits until the broker has stored the requeued messages and counts them as ready. If
// other consumers get messages meanwhile, this may never happen.
func (d *DeadLetters) awaitReady(want int) bool {
	for deadline := time.Now().Add(requeueTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ready, err := d.countReady(); err != nil || ready >= want {
			return err == nil
		}
	}
	return false
}

// closeChannel returns when the broker has processed everything that was sent before.
func (d *DeadLetters) closeChannel() error {
	defer d.session.closeAfter(answerTimeout)()
	if err := d.channel.Close(); err != nil {
		return d.explain(err)
	}
	return nil
}
