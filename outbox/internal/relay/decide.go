package relay

import (
	"errors"
	"math/rand/v2"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// verdict is what becomes of an event after its answer.
type verdict struct {
	// released: nothing is written. The end of the claim makes the event due.
	released  bool
	published bool
	failure   store.Failure // if it is not released or published
	pause     bool          // its topic pauses, for the same reason
	resume    bool          // the pause of its topic ends
}

// Two values of failure_code; failureCode has the others.
const (
	codeRefused   = "refused"
	codeNoPayload = "no_payload"
)

// firstTopicPause is the first pause of a topic. It doubles after each trial event that is not
// taken, up to LongestTopicPause. It is short, because the trial event may be a bad one of a good
// topic.
func (c Config) firstTopicPause() time.Duration {
	return min(500*time.Millisecond, c.LongestTopicPause/20)
}

// policy decides what becomes of events and of their topics.
type policy struct {
	config *Config
	topics *topics
}

// verdict is what becomes of an event and of its topic, after this result.
func (p policy) verdict(e store.Event, result publish.Result, trial bool) verdict {
	v := verdict{failure: store.Failure{ID: e.ID, Code: failureCode(result), Delay: p.config.retryDelay(e.RetryCount)}}
	if result.Err != nil {
		v.failure.Reason = result.Err.Error()
	}
	switch {
	case result.Outcome == publish.Confirmed:
		v.published = true
		v.resume = p.topics.take(e.PauseName(), trial)
	case result.Outcome == publish.Returned, errors.Is(result.Err, publish.ErrBusy):
		v.failure.Halt, v.pause = true, true
		v.failure.Tried = result.Outcome == publish.Returned
	case result.Outcome == publish.NotSent:
		v.released = true
	case result.Outcome == publish.Refused:
		v.failure.Counts = true
		v.pause = p.topics.refuse(e, errors.Is(result.Err, publish.ErrClosed)) || trial
	case result.Outcome == publish.Invalid:
		v.failure.Final = true
	case errors.Is(result.Err, errAlone):
		var before int
		before, v.failure.Counts = p.topics.lostAlone(e.ID) // at first nothing counts: it may be unreachable
		v.failure.Delay = p.config.retryDelay(max(before, e.RetryCount))
		v.pause = p.topics.refuse(e, false) || trial
	case errors.Is(result.Err, publish.ErrTimeout) && len(p.config.NoAnswerPauses) > 0:
		v.failure.Counts = true
		v.failure.Delay = p.config.NoAnswerPauses[min(e.RetryCount, len(p.config.NoAnswerPauses)-1)]
	case errors.Is(result.Err, publish.ErrTimeout):
		v.failure.Tried, v.failure.Halt = true, p.topics.isPaused(e.PauseName())
	default: // lost
		v.released = true
	}
	if v.pause {
		p.topics.pause(e.PauseName())
	}
	return v
}

// retryDelay doubles each time, up to the cap. Half of it is random, so that events that were
// refused together are not all tried again at the same time.
func (c Config) retryDelay(times int) time.Duration {
	delay := c.RetryBase
	for range times {
		delay = min(2*delay, c.RetryCap)
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
	case errors.Is(r.Err, publish.ErrClosed), errors.Is(r.Err, errAlone):
		return store.CodeSessionClosed
	case errors.Is(r.Err, publish.ErrTimeout):
		return store.CodeNoAnswer
	case r.Outcome == publish.Returned:
		return store.CodeUnroutable
	case r.Outcome == publish.Invalid:
		return "invalid"
	default:
		return codeRefused
	}
}
