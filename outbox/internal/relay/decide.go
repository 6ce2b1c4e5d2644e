package relay

import (
	"errors"
	"math/rand/v2"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// outcome is what became of an attempt to send an event.
type outcome int

const (
	confirmed   outcome = iota
	returned            // no consumer can get it
	busy                // not sent: too many of its topic wait for their answers, or it is unreachable
	refused             // by the destination's answer
	closedAlone         // the destination has closed the publisher, and only this event had no answer
	lostAlone           // the connection was lost, and only this event had no answer
	invalid             // no destination could take it
	noAnswer            // in time
	notSent             // by a publisher that has ended, or a session that is left
	lost                // the publisher was lost, and other events had no answer either
)

// decision is what becomes of an event, and of its topic.
type decision struct {
	event eventState
	topic topicState
	// after is how many events of a topic, one after the other, must be refused or end publishers
	// until it pauses. A probe alone pauses it.
	after   int
	failure store.Failure // is written, unless the event is published or retried
}

type eventState int

const (
	undecided eventState = iota
	published
	delayed // it is due after a pause of its own
	halted  // it is due when its topic's pause is over
	retried // nothing is written; it is due when its claim ends
	failed
)

type topicState int

const (
	unchanged topicState = iota
	resumed              // its pause is over
	paused
	untried // nothing is known about it: if the event was a probe, others are sent at once
)

// table is the policy, as the package's comment explains it. decide adds what depends on the past.
var table = [...]decision{
	confirmed:   {event: published, topic: resumed},
	returned:    {event: halted, topic: paused, failure: store.Failure{Tried: true, Code: store.CodeUnroutable}},
	busy:        {event: halted, topic: paused, failure: store.Failure{Code: "busy"}},
	refused:     {event: delayed, topic: paused, after: 2, failure: store.Failure{Counts: true, Code: codeRefused}},
	closedAlone: {event: delayed, topic: paused, after: 50, failure: store.Failure{Counts: true, Code: store.CodeSessionClosed}},
	lostAlone:   {event: delayed, topic: paused, after: 2, failure: store.Failure{Code: store.CodeSessionClosed}},
	invalid:     {event: failed, topic: untried},
	noAnswer:    {event: delayed, topic: unchanged, failure: store.Failure{Tried: true, Code: store.CodeNoAnswer}},
	notSent:     {event: retried, topic: untried},
	lost:        {event: retried, topic: untried},
}

// past is what the relay remembers about an event and its topic.
type past struct {
	isProbe  bool // the event stands for its paused topic
	isPaused bool // the topic, by this relay
	failures int  // events of the topic that were not taken, this one too, without a confirm in between
	lost     int  // how often the event was lostAlone before
}

// decide is what becomes of an event, and of its topic.
func (c *Config) decide(e store.Event, o outcome, err error, p past) decision {
	d := table[o]
	f := &d.failure
	f.ID, f.Delay = e.ID, c.retryDelay(max(e.RetryCount, p.lost))
	if err != nil {
		f.Reason = err.Error()
	}
	switch {
	case d.topic == resumed && !p.isPaused && !p.isProbe, d.topic == paused && p.failures < d.after && !p.isProbe:
		d.topic = unchanged
	case o == refused && p.isProbe && e.RetryCount == 0: // a new event: it may be the only one that is refused
		d.topic = untried
	case o == noAnswer && len(c.NoAnswerPauses) > 0: // each try may make one more copy
		f.Counts, f.Delay = true, c.NoAnswerPauses[min(e.RetryCount, len(c.NoAnswerPauses)-1)]
	case o == noAnswer && p.isPaused:
		d.event = halted
	case o == invalid:
		f.Code = invalidCode(err)
	}
	f.Counts = f.Counts || o == lostAlone && p.lost+1 >= causeAfter
	f.Halt, f.Final = d.event == halted, d.event == failed
	return d
}

// outcomeOf does not know which event has ended the publisher: see sender.note.
func outcomeOf(r publish.Result) outcome {
	switch {
	case r.Outcome == publish.Confirmed:
		return confirmed
	case r.Outcome == publish.Returned:
		return returned
	case errors.Is(r.Err, publish.ErrBusy):
		return busy
	case r.Outcome == publish.NotSent:
		return notSent
	case r.Outcome == publish.Refused:
		return refused
	case r.Outcome == publish.Invalid:
		return invalid
	case errors.Is(r.Err, publish.ErrTimeout):
		return noAnswer
	}
	return lost
}

// Two values of failure_code; the table, and invalidCode, have the others.
const (
	codeRefused   = "refused"
	codeNoPayload = "no_payload"
)

// firstTopicPause is the first pause of a topic. It doubles each time that a probe pauses it again, up
// to LongestTopicPause.
func (c *Config) firstTopicPause() time.Duration {
	return min(500*time.Millisecond, c.LongestTopicPause/20)
}

// retryDelay doubles each time, up to the cap. Half of it is random, so that events that were
// refused together are not all tried again at the same time.
func (c *Config) retryDelay(times int) time.Duration {
	delay := c.RetryBase
	for range times {
		delay = min(2*delay, c.RetryCap)
	}
	return delay/2 + rand.N(delay/2+1) //nolint:gosec // it spreads load and needs no secrecy
}

// invalidCode is the failure_code of an event that no destination could take.
func invalidCode(err error) string {
	switch {
	case errors.Is(err, publish.ErrTooLarge):
		return "too_large"
	case errors.Is(err, publish.ErrBadTopic):
		return "bad_topic"
	case errors.Is(err, publish.ErrBadHeaders):
		return "bad_headers"
	}
	return "invalid"
}
