package relay

import (
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// maxSlowWindows bounds what is slow, in windows.
const maxSlowWindows = 8

// takenCheck is how often a batch of a session that was left looks whether another one takes its
// topics.
const takenCheck = 200 * time.Millisecond

// never is later than every time.
var never = time.Unix(1<<40, 0)

// errNotRead is the reason if another session must send the event.
var errNotRead = fmt.Errorf("%w on a connection that the destination does not read", publish.ErrTimeout)

// expire gives up waiting for answers that are late. First the batch gives up its places in the
// window, and then the wait.
func (b *batch) expire(now time.Time) {
	switch {
	case b.count[sent] == 0:
	case b.sender.isBlocked(): // time does not run while the destination asks to wait
		b.sentAt = now
	case !now.Before(b.expiresAt()):
		if b.mayBecomeSlow() {
			b.becomeSlow()
			return
		}
		for _, it := range b.items {
			if it.state == sent {
				b.giveUp(it, publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout})
			}
		}
	case b.sender.isUnread():
		b.releaseTaken()
	}
}

// expiresAt is when the wait for answers is over. A session that answers one by one has its own
// bound for each message.
func (b *batch) expiresAt() time.Time {
	switch {
	case b.count[sent] == 0:
		return never
	case b.mayBecomeSlow():
		return b.sentAt.Add(min(b.config.SlowAfter, b.config.ConfirmTimeout))
	case b.sender.isOneByOne:
		return never
	}
	return b.sentAt.Add(b.config.ConfirmTimeout)
}

// mayBecomeSlow reports whether the batch gives up its places in the window after SlowAfter. If a
// session answers one by one, only a trial event does: the next topics are tried meanwhile.
func (b *batch) mayBecomeSlow() bool {
	return !b.isSlow && (b.isTrial || !b.sender.isOneByOne) && b.window.slow() <= (maxSlowWindows-1)*b.config.Window
}

// becomeSlow also pauses the topics of which nothing was taken since the batch was sent. A session
// that answers one by one says itself which topics are slow: ErrBusy.
func (b *batch) becomeSlow() {
	b.isSlow = true
	b.window.tell(news{isSlow: true})
	for _, it := range b.items {
		if topic := it.event.PauseName(); !b.sender.isOneByOne && it.state == sent && b.topics.lastTaken(topic).Before(b.sentAt) {
			b.topics.pause(topic)
			b.pauses = append(b.pauses, topic)
		}
	}
}

// releaseTaken makes those events due whose topic another session takes: they are sent again there.
// This session may stay silent until ConfirmTimeout. What it has not written yet it must not write
// later, because the next event of the aggregate may be sent meanwhile. So the lease of the batch
// ends.
func (b *batch) releaseTaken() {
	for _, it := range b.items {
		if it.state == sent && b.topics.lastTaken(it.event.PauseName()).After(b.sentAt) {
			b.giveUp(it, notRead)
			b.lease.end()
		}
	}
}
