package rabbitmq

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

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

// fetch takes at least one message, unless the queue has none for this browser.
func (b *Browser) fetch() error {
	n := min(maxFetch, b.remaining)
	if b.largest > 0 {
		n = min(n, maxFetchSize/b.largest)
	}
	if b.taken >= oneByOne && n > 1 {
		if err := b.consume(n); err != nil || len(b.fetched) > 0 {
			return err
		}
	}
	defer b.session.closeAfter(answerTimeout)()
	d, ok, err := b.channel.Get(b.queue, false)
	if ok {
		b.take(d)
	}
	return err
}

func (b *Browser) take(d amqp.Delivery) {
	b.taken++
	b.largest = max(b.largest, len(d.Body))
	b.held, b.fetched = append(b.held, d.DeliveryTag), append(b.fetched, d)
}

// consume takes at most n messages with a consumer of its own. The consumer ends before a message
// is removed: after an ack it would get another one.
func (b *Browser) consume(n int) error {
	tag := fmt.Sprintf("browser-%d", b.session.consumers.Add(1))
	deliveries, err := b.beginConsuming(tag, n)
	if err != nil {
		return err
	}
	pause := time.NewTimer(fetchPause)
	defer pause.Stop()
	for waiting := true; waiting && n > 0; {
		select {
		case d, open := <-deliveries:
			if waiting = open; open {
				b.take(d)
				n--
				pause.Reset(fetchPause)
			}
		case <-pause.C:
			waiting = false
		}
	}
	defer b.session.closeAfter(answerTimeout)()
	err = b.channel.Cancel(tag, false)
	for d := range deliveries { // until the cancel closes it
		b.take(d)
	}
	return err
}

func (b *Browser) beginConsuming(tag string, n int) (<-chan amqp.Delivery, error) {
	defer b.session.closeAfter(answerTimeout)()
	if err := b.channel.Qos(n, 0, false); err != nil {
		return nil, err
	}
	return b.channel.Consume(b.queue, tag, false, false, false, false, nil)
}
