package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// settle writes what became of a batch. It marks the published events first, because an event
// that is not marked is published again.
func (w *worker) settle(ctx context.Context, claim store.Claim, s settlement) error {
	// The timeout starts now, and not at the claim. A relay that was suspended for longer than
	// its lease still marks the published events. The other statements report lost leases.
	ctx, cancel := context.WithTimeout(ctx, w.config.Lease)
	defer cancel()
	crashpoint.At("relay.confirmed")
	for _, failure := range s.later {
		if failure.Counts {
			w.counters.retries.Add(1)
		}
	}

	if len(s.published) > 0 {
		w.write(ctx, "published", len(s.published), func(ctx context.Context) (int, error) {
			began := time.Now()
			err := w.events.MarkPublished(ctx, s.tokenToEnd(claim.Token), s.published)
			if err == nil {
				w.counters.marks.add(time.Since(began))
			}
			return len(s.published), err
		})
	}
	crashpoint.At("relay.marked")
	if len(s.later) > 0 {
		w.write(ctx, "rescheduled", len(s.later), func(ctx context.Context) (int, error) {
			return w.events.Reschedule(ctx, claim.Token, s.later)
		})
	}
	if len(s.overtaken) > 0 {
		overtaken := w.write(ctx, "overtaken", len(s.overtaken), func(ctx context.Context) (int, error) {
			return len(s.overtaken), w.events.Overtake(ctx, claim.Token, s.overtaken)
		})
		w.counters.overtaken.Add(uint64(overtaken)) //nolint:gosec // a count
	}
	w.fail(ctx, claim, slices.Concat(s.failed, lostPayloads(s.lost)))
	if !s.allPublished() {
		w.write(ctx, "released", len(s.released), func(ctx context.Context) (int, error) {
			held, err := w.events.Release(ctx, claim.Token)
			return len(s.released) * boolToInt(held), err
		})
	}
	if s.unknown != nil {
		w.addSuspects(s)
		return fmt.Errorf("%d events released, what became of them is unknown: %w", len(s.released), s.unknown)
	}
	w.clearSuspect()
	return nil
}

// clearSuspect makes the suspects one less. They never become negative, although several workers
// clear them at the same time: then the next suspects would not be singled out.
func (r *Relay) clearSuspect() {
	for {
		n := r.suspects.Load()
		if n <= 0 || r.suspects.CompareAndSwap(n, n-1) {
			return
		}
	}
}

// addSuspects counts the events that may have made the broker close the channel: all events of
// the batch. After a broken connection or a timeout it counts one, so that the next batch is
// small and shows whether the broker answers again.
func (w *worker) addSuspects(s settlement) {
	suspects := 1
	if errors.Is(s.unknown, publish.ErrSessionClosed) {
		suspects = len(s.released)
	}
	w.suspects.Add(int64(suspects))
}

// firstTimeout bounds the first attempt of a statement. Without it, nothing would notice a
// database that no longer answers.
const firstTimeout = 5 * time.Second

// statementTimeout gives each further attempt more time, so that a database that is only slow
// can finish one of them.
func statementTimeout(attempt int) time.Duration { return time.Duration(attempt) * firstTimeout }

// longestPause between two attempts to write is short, because the lease is running out.
const longestPause = 2 * time.Second

// write tries fn until ctx ends. If it cannot write, the events are published again after the
// lease. Each attempt has its own deadline and connection, so that a connection that hangs does
// not use up the lease.
func (w *worker) write(ctx context.Context, what string, events int, fn func(context.Context) (int, error)) (held int) {
	logRetry := func(err error, in time.Duration) {
		w.log.trouble(ctx, slog.LevelWarn, "cannot settle events, trying again", "as", what, "events", events, "in", in.String(), "error", err)
	}
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = longestPause
	attempt := 0
	held, err := backoff.Retry(ctx, func() (int, error) {
		attempt++
		ctx, cancel := context.WithTimeout(ctx, statementTimeout(attempt))
		defer cancel()
		return fn(ctx)
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(logRetry))
	switch {
	case err != nil:
		w.log.trouble(ctx, slog.LevelError, "gave up settling events, their lease will end", "as", what, "events", events, "error", err)
	case held < events:
		w.counters.leaseLost.Add(uint64(events - held)) //nolint:gosec // positive
		w.log.trouble(ctx, slog.LevelWarn, "lease lost: somebody else holds these events now", "as", what, "events", events-held)
	}
	return held
}
