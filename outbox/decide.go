package outbox

import (
	"errors"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// settlement groups the events of a batch by what becomes of them.
type settlement struct {
	outcomes  []string // for the spans, in the order of the events
	published []uuid.UUID
	later     []store.Failure
	failed    []store.Failure
	released  []uuid.UUID
	overtaken []uuid.UUID // a newer event supersedes them
	lost      []uuid.UUID // their payload is missing
	unknown   error       // why the session can no longer be used
}

// decide applies the policy to the outcomes. It has no side effects.
func (c RelayConfig) decide(events []store.Event, results []publish.Result, refusals map[uuid.UUID]verdict) settlement {
	var s settlement
	for i, e := range events {
		r := results[i]
		failure := store.Failure{ID: e.ID, Code: failureCode(r)}
		if r.Err != nil {
			failure.Reason = r.Err.Error()
		}
		alone := len(events) == 1
		switch {
		case r.Outcome == publish.Confirmed:
			s.markPublished(e)
		case r.Outcome == publish.Returned:
			failure.Delay = unroutableDelay(e.Age)
			s.retryLater(failure)
		case r.Outcome == publish.Invalid:
			s.fail(failure)
		case r.Outcome == publish.Refused && !refusals[e.ID].counts:
			failure.Delay = refusals[e.ID].delay
			s.retryLater(failure)
		case r.Outcome == publish.Refused, alone && errors.Is(r.Err, publish.ErrSessionClosed):
			s.retryOrFail(c, e, failure)
		default:
			s.release(e)
		}
		if r.Outcome == publish.Unknown {
			s.noteUnknown(r.Err)
		}
	}
	return s
}

// The values of the span attribute outbox.outcome.
const (
	outcomePublished = "published"
	outcomeRetry     = "retry"  // it is tried again later
	outcomeDLQ       = "dlq"    // it is failed, and a copy goes to the dead-letter queue
	outcomeFailed    = "failed" // the outcome is unknown, and it is tried again at once
)

func (s *settlement) markPublished(e store.Event) {
	s.published, s.outcomes = append(s.published, e.ID), append(s.outcomes, outcomePublished)
}

func (s *settlement) retryLater(failure store.Failure) {
	s.later, s.outcomes = append(s.later, failure), append(s.outcomes, outcomeRetry)
}

func (s *settlement) fail(failure store.Failure) {
	s.failed, s.outcomes = append(s.failed, failure), append(s.outcomes, outcomeDLQ)
}

func (s *settlement) release(e store.Event) {
	s.released, s.outcomes = append(s.released, e.ID), append(s.outcomes, outcomeFailed)
}

// noteUnknown keeps the error that ends the session. It prefers ErrSessionClosed, which says that a
// message is the cause. The other errors only follow from it.
func (s *settlement) noteUnknown(err error) {
	isCause := errors.Is(err, publish.ErrSessionClosed) && !errors.Is(s.unknown, publish.ErrSessionClosed)
	if s.unknown == nil || isCause {
		s.unknown = err
	}
}

// retryOrFail counts an attempt that failed because of the event itself.
func (s *settlement) retryOrFail(c RelayConfig, e store.Event, failure store.Failure) {
	failure.Counts = true
	if failure.Delay = c.retryDelay(e.RetryCount); e.RetryCount+1 >= c.MaxAttempts {
		s.fail(failure)
	} else {
		s.retryLater(failure)
	}
}

// failureCode is the value of the column failure_code for an outcome.
func failureCode(r publish.Result) string {
	switch {
	case errors.Is(r.Err, publish.ErrTooLarge):
		return "too_large"
	case errors.Is(r.Err, publish.ErrBadTopic):
		return "bad_topic"
	case errors.Is(r.Err, publish.ErrBadHeaders):
		return "bad_headers"
	case errors.Is(r.Err, publish.ErrSessionClosed):
		return "session_closed"
	case r.Outcome == publish.Returned:
		return codeUnroutable
	case r.Outcome == publish.Invalid:
		return "invalid"
	default:
		return "refused"
	}
}

func (s settlement) allPublished() bool {
	return len(s.later)+len(s.failed)+len(s.released)+len(s.overtaken)+len(s.lost) == 0
}

// tokenToEnd returns the token if the whole claim is published, so that marking its events
// also ends it.
func (s settlement) tokenToEnd(token uuid.UUID) uuid.UUID {
	if s.allPublished() {
		return token
	}
	return uuid.Nil
}
