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
	lossPause = 10 * time.Millisecond
	// maxBytes bounds the payloads that the workers of a relay have in flight, and so its memory.
	// Above half of it nothing is claimed. A claim has up to 8 MiB. If more than two workers claim at
	// the same time, or one claims probes, it may be more.
	maxBytes = 32 << 20
	// mostProbes is how many events are probes at once, and probePause the least time between two
	// claims of probes.
	mostProbes = 100
	probePause = 50 * time.Millisecond
)

// schedule says when a worker claims.
type schedule struct {
	isDue     bool      // events may be due
	dueAt     time.Time // when the next event becomes due; zero: nobody knows
	notBefore time.Time
	isDone    bool // no topic is to be probed
}

// hear takes the news of the batches.
func (s *schedule) hear(n news) {
	s.isDue = s.isDue || n.isDue
	if n.isTriedAgain {
		s.notBefore = earlier(s.notBefore, time.Now().Add(probePause))
	}
}

// at is when the next claim is; never, if nobody knows.
func (s *schedule) at(isBlocked bool) time.Time {
	switch {
	case s.isDue && isBlocked:
		return time.Now().Add(blockedCheck)
	case s.isDue:
		return s.notBefore
	case !s.dueAt.IsZero():
		return later(s.dueAt, s.notBefore)
	}
	return never
}

// claimed decides when the next claim is. It reports whether another worker can take the rest.
func (s *schedule) claimed(c store.Claim) (rest bool) {
	now := time.Now()
	s.isDue, s.dueAt = c.More, time.Time{}
	switch {
	case c.More:
		return true
	case c.NextDue != nil:
		s.dueAt = now.Add(seconds(*c.NextDue))
	}
	if len(c.Events) > 0 {
		s.notBefore = now.Add(smallBatchPause)
	}
	return false
}

func (s *schedule) claimedProbes(c store.Claim) {
	if s.isDone = c.NextProbe == nil; !s.isDone {
		s.notBefore = time.Now().Add(max(probePause, seconds(*c.NextProbe)))
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// hasRoom reports whether half of what may wait for answers now is free.
func (w *worker) hasRoom() bool {
	room, limit := w.room()
	return room > 0 && room >= (limit+1)/2
}

// room is how many events the worker may claim, and how many if none waits for an answer.
func (w *worker) room() (room, limit int) {
	waiting := w.window.waiting()
	switch {
	case !w.sender.isReady():
		return 0, 0
	case w.isProbe && waiting > 0:
		return 0, 0 // a queue that does not take its probe may stop the session, and others would wait
	case w.unanswered.isTooMuch(w.window.bytes.Load()):
		return 0, 0
	}
	room, limit = w.pace.room()
	return min(room, w.config.Window-waiting), min(limit, w.config.Window)
}

func (w *worker) mayClaim(ctx context.Context) bool {
	now := time.Now()
	if ctx.Err() != nil || !w.hasRoom() || now.Before(later(w.schedule.at(false), w.database.notBefore())) {
		return false
	}
	if at := w.database.caution.notBefore(now); at.After(now) {
		w.schedule.notBefore = at
		return false
	}
	return !w.sender.session.Blocked()
}

// claim claims what is due, and starts a batch. A claim goes on when ctx ends: otherwise one that
// is committed would wait for the end of its lease. It ends with ShutdownTimeout: after an error,
// the store lets the claim go, which may take a second. If it commits after that, the events wait
// for the lease to end.
func (w *worker) claim(running context.Context) {
	var claim store.Claim
	var asked time.Time
	var took time.Duration
	reserved := 0
	defer func() { w.pace.release(reserved) }() // when the batch is there
	ok := w.database.execute(running, w.by.answers, "cannot claim from the outbox", func(ctx context.Context) (err error) {
		if asked = time.Now(); !w.mayClaim(running) {
			return errNotNow // it has waited for its turn
		}
		room, _ := w.room()
		if reserved = w.pace.reserve(room); reserved == 0 {
			return errNotNow // another worker has claimed meanwhile
		}
		if w.isProbe {
			claim, err = w.database.store.ClaimProbes(ctx, w.name, min(reserved, mostProbes), w.config.Lease)
		} else {
			claim, err = w.database.store.Claim(ctx, w.name, reserved, w.config.Lease)
		}
		took = time.Since(asked)
		return err
	})
	if !ok {
		return
	}
	w.report.count(func(all *Counters) {
		all.Claims.add(took)
		all.Superseded += uint64(claim.Superseded) //nolint:gosec // positive
	})
	if w.isProbe {
		w.schedule.claimedProbes(claim)
	} else {
		if w.schedule.claimed(claim) {
			signal(w.wake)
		}
		if claim.NextProbe != nil {
			signal(w.tryTopics)
		}
	}
	w.start(running, claim, asked)
}
