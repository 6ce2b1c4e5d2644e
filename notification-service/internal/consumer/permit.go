package consumer

import (
	"context"
	"log/slog"
	"time"
)

// permit allows its holder one piece of work. When the holder knows the result, it calls at
// most one of succeed, fail, failMessage and failUnclear. It always calls release at the end.
type permit struct {
	*gate
	generation int
	isTrial    bool
}

// failureHistory is what one message has met at one dependency.
type failureHistory struct {
	failures  int // how often the message failed
	successes int // how many messages had succeeded at the last failure
	repeated  int // how often the dependency was certainly at fault, although others had succeeded
}

// othersSucceeded reports whether another message succeeded since the last failure of this one.
func (h *failureHistory) othersSucceeded(g *gate) bool {
	return h.failures > 0 && g.successes > h.successes
}

func (h *failureHistory) add(g *gate) { h.failures, h.successes = h.failures+1, g.successes }

// succeed says that the dependency did the work. Work that began before the gate closed
// proves nothing about now.
func (p *permit) succeed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != p.gate.generation {
		return
	}
	p.successes++
	if len(p.suspects) > 0 || p.isClosed {
		p.open()
		p.wake()
	}
}

// isValid reports whether the work may still be done: the gate has not closed since, or this is
// the trial.
func (p *permit) isValid() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation == p.gate.generation
}

// release ends a trial that has proved nothing.
func (p *permit) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isTrial && p.isClosed && p.trying && p.generation == p.gate.generation {
		p.isTrial, p.trying = false, false
		p.wake()
	}
}

// fail says that the dependency is certainly at fault.
func (p *permit) fail(ctx context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close(ctx, err)
	p.endTrial(ctx, err)
}

// failMessage is fail for the work on a message. It returns how often that has happened to the
// message although others had succeeded before.
func (p *permit) failMessage(ctx context.Context, h *failureHistory, err error) (repeated int) {
	p.mu.Lock()
	if h.othersSucceeded(p.gate) {
		h.repeated++
	}
	h.add(p.gate)
	p.mu.Unlock()
	p.fail(ctx, err)
	return h.repeated
}

// maxSuspectPause is the longest time between two attempts at a message with an unclear error.
const maxSuspectPause = 15 * time.Second

// failUnclear says that the work met an error that may be the dependency's or the message's
// own. It returns true if the error is the message's own. Otherwise it waits until the message
// may be tried again, and returns false.
func (p *permit) failUnclear(ctx context.Context, h *failureHistory, err error) (own bool) {
	if p.addSuspect(ctx, h, err) {
		return true
	}
	pause := time.NewTimer(min(firstPause<<min(h.failures-1, 10), maxSuspectPause))
	defer pause.Stop()
	defer p.removeSuspect(h)
	for {
		changed, isDecided := p.decided(h)
		if isDecided {
			return false
		}
		select {
		case <-changed:
		case <-pause.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (p *permit) addSuspect(ctx context.Context, h *failureHistory, err error) (own bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.endTrial(ctx, err)
	if h.othersSucceeded(p.gate) {
		return true
	}
	h.add(p.gate)
	p.suspects[h] = struct{}{}
	if len(p.suspects) >= suspectsToClose {
		p.close(ctx, err)
	}
	return false
}

// decided reports whether a suspect need not wait any more: another message succeeded, or the
// gate closed.
func (g *gate) decided(h *failureHistory) (changed <-chan struct{}, isDecided bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed, g.isClosed || g.successes > h.successes
}

// removeSuspect is for a suspect that is tried again, or gone.
func (g *gate) removeSuspect(h *failureHistory) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.suspects, h)
}

// endTrial makes the next trial wait longer.
func (p *permit) endTrial(ctx context.Context, err error) {
	if !p.isTrial || !p.trying || p.generation != p.gate.generation {
		return
	}
	p.isTrial, p.trying = false, false
	p.pause = min(2*p.pause, maxPause)
	p.nextTrial = time.Now().Add(p.pause)
	slog.WarnContext(ctx, "still away", "dependency", p.name, "tried_again_in", p.pause.String(), "error", err)
	p.wake()
}
