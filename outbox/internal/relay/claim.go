package relay

import (
	"context"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
)

const (
	// smallBatchPause is the pause after a claim that took all that was due. The events that are
	// committed meanwhile make one larger batch instead of many small ones, and each batch costs the
	// database the same. The first event after a quiet time does not wait.
	smallBatchPause = 2 * time.Millisecond
	// lossPause is the pause after a publisher was lost. The next one may be lost at once.
	lossPause = 50 * time.Millisecond
	// maxBytes bounds the payloads that the workers of a relay have in flight, and so its memory.
	// Above half of it nothing is claimed. A claim has up to 8 MiB. Those of more than two workers at
	// the same time may come on top, and that of trial events.
	maxBytes = 32 << 20
	// mostTopics is how many topics are tried at once, and trialPause the least time between two
	// claims. A new session tries one, and each claim twice as many, until a trial has no answer.
	mostTopics = 100
	trialPause = 50 * time.Millisecond
)

// hasRoom reports whether half of the window is free.
func (w *worker) hasRoom() bool { return w.room() >= (w.config.Window+1)/2 }

// room is how many events the worker may claim.
func (w *worker) room() int {
	waiting := w.inFlight.waiting()
	switch {
	case w.phase != working || len(w.apart) > 0 || w.sender != nil && (w.sender.lost || w.sender.full()):
		return 0
	case w.trials && waiting > 0:
		return 0 // a queue that does not take its trial event may stop the session, and others would wait
	case w.inFlight.slow() >= maxSlowWindows*w.config.Window || w.unanswered.isTooMuch(w.bytes.Load()):
		return 0
	}
	return w.config.Window - waiting
}

func (w *worker) mayClaim(ctx context.Context) bool {
	now := time.Now()
	isDue := w.due || !w.dueAt.IsZero() && !now.Before(w.dueAt)
	if !isDue || ctx.Err() != nil || !w.hasRoom() || now.Before(w.notBefore) || now.Before(w.retryAt) {
		return false
	}
	if w.unrecorded.Load() > 0 {
		w.notBefore = now.Add(lossPause)
		return false
	}
	blocked := w.session.Blocked()
	w.health.blocked.Store(blocked)
	return !blocked
}

// claim has its own deadline, and ends with ShutdownTimeout: after an error, the store lets the claim
// go, which may take a second. If it commits after that, the events wait for the lease to end.
func (w *worker) claim(ctx context.Context) (claim store.Claim) {
	began := time.Now()
	w.claimed = began
	ok := w.execute(ctx, w.over, "cannot claim from the outbox", func(ctx context.Context) (err error) {
		if w.trials {
			claim, err = w.events.ClaimTrials(ctx, w.name, w.tries, w.config.Lease)
		} else {
			claim, err = w.events.Claim(ctx, w.name, max(w.room(), 1), w.config.Lease) // bytes of others may have come
		}
		return err
	})
	if !ok {
		return store.Claim{}
	}
	w.counters.count(func(s *Counters) {
		s.Claims.add(time.Since(began))
		s.Superseded += uint64(claim.Superseded) //nolint:gosec // positive
	})
	if w.trials {
		w.planTrials(claim)
	} else {
		w.plan(claim)
	}
	return claim
}

// plan decides when the next claim is.
func (w *worker) plan(claim store.Claim) {
	now := time.Now()
	if claim.NextTrial != nil {
		signal(w.tryTopics)
	}
	w.due, w.dueAt = claim.More, time.Time{}
	switch {
	case claim.More:
		w.Wake() // another worker can take the rest
		return
	case claim.NextDue != nil:
		w.dueAt = now.Add(seconds(*claim.NextDue))
	}
	if len(claim.Events) > 0 {
		w.notBefore = now.Add(smallBatchPause)
	}
}

func (w *worker) planTrials(claim store.Claim) {
	if claim.NextTrial == nil {
		w.phase = done // no topic is to be tried
		return
	}
	w.notBefore = time.Now().Add(max(trialPause, seconds(*claim.NextTrial)))
	if len(claim.Events) > 0 {
		w.tries = min(2*w.tries, mostTopics)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
