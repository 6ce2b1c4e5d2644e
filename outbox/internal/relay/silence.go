package relay

import (
	"time"
)

// maxSlowWindows bounds what is slow, in windows.
const maxSlowWindows = 8

// pauseIfSilent reports whether the destination has answered nothing at all on this session for
// SlowAfter. Then the batches pause their silent topics. RabbitMQ stops reading a whole connection
// when one queue does not take what was sent, so another worker with another session must take the
// place of this one.
func (w *worker) pauseIfSilent() bool {
	if time.Now().Before(w.sender.silentAt()) || w.sender.isBlocked() {
		return false
	}
	w.sender.hear()
	for _, b := range w.window.inHand() {
		signal(b.silence)
	}
	return true
}

// silentAt is when the session is silent, if no answer comes until then.
func (s *sender) silentAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOneByOne || s.inFlight == 0 {
		return never
	}
	return s.quiet.Add(s.config.SlowAfter)
}

// isBlocked reports whether the destination asks to wait. Meanwhile it is not silent.
func (s *sender) isBlocked() bool {
	is := s.session.Blocked()
	if is {
		s.hear()
	}
	return is
}

// hear restarts the clock of silence.
func (s *sender) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = time.Now()
}

// expire gives up waiting for answers. First silent topics pause, and then the events
// are given up.
func (b *batch) expire(now time.Time) {
	switch waiting := b.count[sent] + b.count[slow]; {
	case waiting == 0:
	case b.sender.isBlocked(): // after that, the wait begins again, at the last check
		b.sentAt = now
	case now.Before(b.expiresAt()):
	case b.mayBecomeSlow():
		b.pauseSilent()
	default:
		if b.count[sent] > 0 { // their topics are not silent: the destination is too slow
			b.window.pace.restart(1)
		}
		for _, it := range b.items {
			if it.state == sent || it.state == slow {
				b.giveUp(it)
			}
		}
	}
}

// expiresAt is when the wait for answers is over. A session that answers one by one has its own
// bound for each message.
func (b *batch) expiresAt() time.Time {
	switch {
	case b.count[sent]+b.count[slow] == 0:
		return never
	case b.mayBecomeSlow():
		return b.sentAt.Add(b.config.SlowAfter)
	case b.sender.isOneByOne:
		return never
	}
	return b.sentAt.Add(b.config.ConfirmTimeout)
}

// mayBecomeSlow reports whether silent topics of the batch are to pause after some time. If a
// session answers one by one, only the batch of a probe is slow: the next topics are tried
// meanwhile.
func (b *batch) mayBecomeSlow() bool {
	return !b.isSlow && (b.isProbe || !b.sender.isOneByOne) && b.window.slow() <= (maxSlowWindows-1)*b.config.Window
}

// pauseSilent pauses the topics of which nothing was taken since the batch was sent. Their events
// take no place in the window any more. A session that answers one by one says itself which topics
// are slow: ErrBusy.
func (b *batch) pauseSilent() {
	b.isSlow = true
	for _, it := range b.items {
		topic := it.event.PauseName()
		isSilent := it.state == sent && b.topics.lastTaken(topic).Before(b.sentAt)
		if isSilent && !b.sender.isOneByOne {
			b.topics.pause(topic)
			b.pauses = append(b.pauses, topic)
		}
		if isSilent || it.state == sent && b.sender.isOneByOne {
			it.set(slow)
		}
	}
}
