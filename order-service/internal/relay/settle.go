package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// settlement is a batch sorted by what becomes of each event.
type settlement struct {
	outcomes  []string // for the traces, in the order of the events
	published []uuid.UUID
	later     []outbox.Setback
	failed    []outbox.Setback
	released  []uuid.UUID
	unknown   error // why the session is of no more use
}

// decide applies the policy to the outcomes. It changes nothing.
func (c Config) decide(events []outbox.Claimed, results []rabbitmq.Result) settlement {
	var s settlement
	for i, e := range events {
		r := results[i]
		setback := outbox.Setback{ID: e.ID, Code: code(r)}
		if r.Err != nil {
			setback.Reason = r.Err.Error()
		}
		alone := len(events) == 1
		switch {
		case r.Outcome == rabbitmq.Confirmed:
			s.publish(e)
		case r.Outcome == rabbitmq.Returned:
			setback.Delay = unroutableDelay(e.Age)
			s.postpone(setback)
		case r.Outcome == rabbitmq.Invalid:
			s.giveUp(setback)
		case r.Outcome == rabbitmq.Refused, alone && errors.Is(r.Err, rabbitmq.ErrChannelClosed):
			s.retryOrFail(c, e, setback)
		default:
			s.release(e)
		}
		if r.Outcome == rabbitmq.Unknown {
			s.lose(r.Err)
		}
	}
	return s
}

// The values of the span attribute outbox.outcome.
const (
	outcomePublished = "published"
	outcomeRetry     = "retry"  // it is tried again later
	outcomeDLQ       = "dlq"    // it is given up, and a copy goes to the dead letters
	outcomeFailed    = "failed" // nobody knows, and it is tried again at once
)

func (s *settlement) publish(e outbox.Claimed) {
	s.published, s.outcomes = append(s.published, e.ID), append(s.outcomes, outcomePublished)
}

func (s *settlement) postpone(setback outbox.Setback) {
	s.later, s.outcomes = append(s.later, setback), append(s.outcomes, outcomeRetry)
}

func (s *settlement) giveUp(setback outbox.Setback) {
	s.failed, s.outcomes = append(s.failed, setback), append(s.outcomes, outcomeDLQ)
}

func (s *settlement) release(e outbox.Claimed) {
	s.released, s.outcomes = append(s.released, e.ID), append(s.outcomes, outcomeFailed)
}

// lose notes why the session is of no more use. If the broker closed the channel over one of the
// messages, that is the cause, and the other errors only follow from it.
func (s *settlement) lose(err error) {
	cause := errors.Is(err, rabbitmq.ErrChannelClosed) && !errors.Is(s.unknown, rabbitmq.ErrChannelClosed)
	if s.unknown == nil || cause {
		s.unknown = err
	}
}

// retryOrFail is for an attempt that was the event's own fault.
func (s *settlement) retryOrFail(c Config, e outbox.Claimed, setback outbox.Setback) {
	setback.Spends = true
	if setback.Delay = c.retryDelay(e.RetryCount); e.RetryCount+1 >= c.MaxAttempts {
		s.giveUp(setback)
	} else {
		s.postpone(setback)
	}
}

// code is the value of the column failure_code for an outcome.
func code(r rabbitmq.Result) string {
	switch {
	case errors.Is(r.Err, rabbitmq.ErrTooLarge):
		return "too_large"
	case errors.Is(r.Err, rabbitmq.ErrBadKey):
		return "bad_key"
	case errors.Is(r.Err, rabbitmq.ErrBadHeaders):
		return "bad_headers"
	case errors.Is(r.Err, rabbitmq.ErrChannelClosed):
		return "channel_closed"
	case r.Outcome == rabbitmq.Returned:
		return "unroutable"
	default:
		return "refused"
	}
}

// settle writes what became of a batch. The events that are published come first:
// each one that is not marked would be published again.
func (w *worker) settle(ctx context.Context, claim outbox.Claim, s settlement) error {
	// The time runs from now, and not from the claim. A relay that slept beyond its lease still
	// marks what is published, and the other statements tell it which leases it has lost.
	ctx, cancel := context.WithTimeout(ctx, w.config.Lease)
	defer cancel()
	crashpoint.At("relay.confirmed")
	for _, setback := range s.later {
		w.metrics.retries.Add(float64(spent(setback)))
	}

	w.write(ctx, "published", len(s.published), func(ctx context.Context) (int, error) {
		return len(s.published), w.outbox.MarkPublished(ctx, s.published)
	})
	crashpoint.At("relay.marked")
	w.write(ctx, "released", len(s.released), func(ctx context.Context) (int, error) {
		return w.outbox.Release(ctx, claim.Token, s.released)
	})
	w.write(ctx, "rescheduled", len(s.later), func(ctx context.Context) (int, error) {
		return w.outbox.Reschedule(ctx, claim.Token, s.later)
	})
	w.fail(ctx, claim, s.failed)
	if s.unknown != nil {
		w.suspect(s)
		return fmt.Errorf("%d events released, what became of them is unknown: %w", len(s.released), s.unknown)
	}
	if w.suspects.Load() > 0 {
		w.suspects.Add(-1)
	}
	return nil
}

// suspect notes how many events may have killed their channel: each of a batch over
// which the broker closed it. For a cut or a silence one event is enough, to find
// out whether there is a way again.
func (w *worker) suspect(s settlement) {
	suspects := 1
	if errors.Is(s.unknown, rabbitmq.ErrChannelClosed) {
		suspects = len(s.released)
	}
	w.suspects.Add(int64(suspects))
}

// statementTimeout is how long a statement of the relay may take at the first attempt. A
// database that has vanished is noticed by nothing else.
const statementTimeout = 5 * time.Second

// timeoutOf gives each further attempt more time: a database that is only slow must not be
// asked for ever in vain.
func timeoutOf(attempt int) time.Duration { return time.Duration(attempt) * statementTimeout }

// longestPause between two attempts to write is short, because a lease is running.
const longestPause = 2 * time.Second

// write tries until ctx ends: what it does not get written, the next holder of the
// lease does again. Each attempt has a deadline of its own and a connection of its own, so
// that one that is frozen does not use up the lease.
func (w *worker) write(ctx context.Context, what string, events int, fn func(context.Context) (int, error)) (held int) {
	if events == 0 {
		return 0
	}
	again := func(err error, in time.Duration) {
		slog.WarnContext(ctx, "cannot settle events, trying again", "as", what, "events", events, "in", in.String(), "error", err)
	}
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = longestPause
	attempt := 0
	held, err := backoff.Retry(ctx, func() (int, error) {
		attempt++
		ctx, cancel := context.WithTimeout(ctx, timeoutOf(attempt))
		defer cancel()
		return fn(ctx)
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
	switch {
	case err != nil:
		slog.ErrorContext(ctx, "gave up settling events, their lease will end", "as", what, "events", events, "error", err)
	case held < events:
		w.metrics.leaseLost.Add(float64(events - held))
		slog.WarnContext(ctx, "lease lost: somebody else holds these events now", "as", what, "events", events-held)
	}
	return held
}
