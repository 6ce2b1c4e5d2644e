package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// verdict is what becomes of an event after its answer.
type verdict struct {
	// unknown: nothing is written. The end of the claim makes the event due.
	unknown   bool
	published bool
	failure   store.Failure // if it is not unknown or published
	pause     bool          // its topic pauses, for the same reason
	resume    bool          // the pause of its topic ends
}

// The values of failure_code.
const (
	codeUnroutable = "unroutable"
	codeRefused    = "refused"
	codeNoPayload  = "no_payload"
)

const (
	// slowAfter is how long an event takes a place in the window without an answer. Then its topic
	// pauses.
	slowAfter = time.Second
	// maxSlowWindows bounds what is slow, in windows.
	maxSlowWindows = 8
	// firstTopicPause doubles each time that the topic's probe fails, up to LongestTopicPause.
	firstTopicPause = time.Second
)

var errNotRead = fmt.Errorf("%w on a connection that the destination does not read", publish.ErrTimeout)

// decide is the policy: what becomes of an event and of its topic, after this result.
func (r *Relay) decide(e store.Event, result publish.Result, probe bool) verdict {
	v := verdict{failure: store.Failure{ID: e.ID, Code: failureCode(result), Delay: r.config.retryDelay(e.RetryCount)}}
	if result.Err != nil {
		v.failure.Reason = result.Err.Error()
	}
	switch {
	case result.Outcome == publish.Confirmed:
		v.published = true
		v.resume = r.topics.take(e.Topic, probe)
	case result.Outcome == publish.Returned, errors.Is(result.Err, publish.ErrBusy):
		v.failure.Halt, v.pause = true, true
		v.failure.Tried = result.Outcome == publish.Returned
	case result.Outcome == publish.Refused:
		v.failure.Counts = true
		v.pause = r.topics.refuse(e, errors.Is(result.Err, publish.ErrClosed)) || probe
	case result.Outcome == publish.Invalid:
		v.failure.Final = true
	case errors.Is(result.Err, errNotRead):
		v.failure.Delay = 0
	case errors.Is(result.Err, publish.ErrTimeout) && len(r.config.NoAnswerPauses) > 0:
		v.failure.Counts = true
		v.failure.Delay = r.config.NoAnswerPauses[min(e.RetryCount, len(r.config.NoAnswerPauses)-1)]
	case errors.Is(result.Err, publish.ErrTimeout):
		v.failure.Tried, v.failure.Halt = true, r.topics.isPaused(e.Topic)
	default: // lost, or not sent
		v.unknown = true
	}
	if v.pause {
		r.topics.pause(e.Topic)
	}
	return v
}

// retryDelay doubles each time, up to the cap. Half of it is random, so that events that were
// refused together are not all tried again at the same time.
func (c RelayConfig) retryDelay(times int) time.Duration {
	delay := c.RetryCap
	if doubled := c.RetryBase << min(times, 62); doubled>>min(times, 62) == c.RetryBase {
		delay = min(doubled, c.RetryCap)
	}
	return delay/2 + rand.N(delay/2+1) //nolint:gosec // it spreads load and needs no secrecy
}

// failureCode is the value of the column failure_code for a result.
func failureCode(r publish.Result) string {
	switch {
	case errors.Is(r.Err, publish.ErrTooLarge):
		return "too_large"
	case errors.Is(r.Err, publish.ErrBadTopic):
		return "bad_topic"
	case errors.Is(r.Err, publish.ErrBadHeaders):
		return "bad_headers"
	case errors.Is(r.Err, publish.ErrClosed):
		return "session_closed"
	case errors.Is(r.Err, publish.ErrTimeout):
		return store.CodeNoAnswer
	case r.Outcome == publish.Returned:
		return codeUnroutable
	case r.Outcome == publish.Invalid:
		return "invalid"
	default:
		return codeRefused
	}
}

// judge gives up waiting for answers that are late. An answer that comes still later counts if it is
// a confirm. It reports whether the destination has answered nothing at all: RabbitMQ stops reading a
// whole connection when one queue does not take what was sent.
func (w *worker) judge(now time.Time) (silent bool) {
	if w.session.Blocked() {
		w.hand.restart(now) // time does not run while the destination asks to wait
		return false
	}
	for _, b := range w.hand.batches {
		waited := now.Sub(b.sentAt)
		if b.count[sent] == 0 {
			continue
		}
		if !b.slow && waited >= min(slowAfter, w.config.ConfirmTimeout) && w.hand.slow() <= (maxSlowWindows-1)*w.config.Window {
			b.slow, w.tries = true, 1
			if w.oneByOne {
				continue // the publisher says which topics are slow: ErrBusy
			}
			w.pauseSlow(b)
			silent = silent || !w.heard.After(b.sentAt)
		}
		if w.isStuck && now.Sub(w.heard) >= slowAfter {
			w.release(b)
		}
		if waited >= w.config.ConfirmTimeout {
			w.noteAll(b, publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout})
		}
	}
	return silent
}

// pauseSlow pauses the topics of a batch of which nothing was taken since the batch was sent.
func (w *worker) pauseSlow(b *batch) {
	for _, it := range b.items {
		if topic := it.event.Topic; it.state == sent && w.topics.lastTaken(topic).Before(b.sentAt) {
			w.topics.pause(topic)
			b.pauses = append(b.pauses, topic)
		}
	}
}

// release makes an event due if another connection takes events of its topic. The event is then sent
// again on that connection. This one may stay silent until ConfirmTimeout.
func (w *worker) release(b *batch) {
	for _, it := range b.items {
		if it.state == sent && w.topics.lastTaken(it.event.Topic).After(b.sentAt) {
			w.note(it, publish.Result{Outcome: publish.Unknown, Err: errNotRead})
		}
	}
}

// replace lets another worker, with another connection, take the place of this one.
func (w *worker) replace() {
	if w.left {
		return
	}
	if w.stuck.Add(1) > maxStuck {
		w.stuck.Add(-1)
		return
	}
	w.left, w.isStuck = true, true
	w.replaced()
}
