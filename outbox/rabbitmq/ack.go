package rabbitmq

import (
	"math"
	"runtime"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// acknowledger acknowledges the messages of one channel. One frame can acknowledge all messages
// up to a tag (multiple). It does so when no older message is still unsettled. Fewer frames
// save system calls here, and work in the broker.
type acknowledger struct {
	channel *amqp.Channel

	mu         sync.Mutex
	unacked    map[uint64]struct{} // the tags of unacknowledged messages: at most the prefetch
	next       *ackRound
	collecting bool // a goroutine has begun the round: others only add their tags
}

// ackRound is a set of messages that are acknowledged together.
type ackRound struct {
	tags []uint64
	sent chan struct{} // closed at the end
	err  error
}

func newAcknowledger(channel *amqp.Channel) *acknowledger {
	return &acknowledger{channel: channel, unacked: map[uint64]struct{}{}, next: &ackRound{sent: make(chan struct{})}}
}

// track adds a message that was delivered and is not yet acknowledged.
func (a *acknowledger) track(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unacked[tag] = struct{}{}
}

// settleWith calls send, which rejects or requeues a message. It holds the lock meanwhile. So no
// later frame that acknowledges everything up to a tag is written before.
func (a *acknowledger) settleWith(tag uint64, send func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := send()
	delete(a.unacked, tag)
	return err
}

// ack returns when the messages are acknowledged. If several goroutines call it at the same time,
// one of them sends for all.
func (a *acknowledger) ack(tags ...uint64) error {
	a.mu.Lock()
	round := a.next
	round.tags = append(round.tags, tags...)
	if a.collecting {
		a.mu.Unlock()
		<-round.sent
		return round.err
	}
	a.collecting = true
	a.mu.Unlock()
	runtime.Gosched() // goroutines that are about to call ack do so now
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = &ackRound{sent: make(chan struct{})}
	a.collecting = false
	round.err = a.send(round.tags)
	close(round.sent)
	return round.err
}

// send acknowledges all tags below the oldest unsettled message with one frame. It sends one
// frame for each of the others.
func (a *acknowledger) send(tags []uint64) error {
	for _, tag := range tags {
		delete(a.unacked, tag)
	}
	oldest := uint64(math.MaxUint64)
	for tag := range a.unacked {
		oldest = min(oldest, tag)
	}
	upTo := uint64(0) // one of the tags: the broker closes the channel if a tag is already settled
	for _, tag := range tags {
		if tag < oldest {
			upTo = max(upTo, tag)
		}
	}
	if upTo > 0 {
		if err := a.channel.Ack(upTo, true); err != nil {
			return err
		}
	}
	for _, tag := range tags {
		if tag > oldest {
			if err := a.channel.Ack(tag, false); err != nil {
				return err
			}
		}
	}
	return nil
}
