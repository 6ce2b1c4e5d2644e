package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// state is what Health reports.
type state struct {
	running  atomic.Bool
	database atomic.Pointer[error] // why the last claim failed, or nil
	// waitsSince is when a worker began to wait until the destination takes messages, or 0.
	waitsSince atomic.Int64
}

var errAwaited = errors.New("it has not answered yet")

// Health returns nil if the relay can publish, and otherwise an error that says what it waits for.
// It reads only memory, so you can call it often. Use it as the readiness of a process that only
// relays. Do not use it if the process also serves requests: these work without the destination.
func (r *Relay) Health() error {
	err := r.state.database.Load()
	switch {
	case !r.state.running.Load():
		return errors.New("the relay does not run")
	case err != nil:
		return fmt.Errorf("the relay waits for the database: %w", *err)
	case r.counters.sessions.Load() == 0:
		return fmt.Errorf("the relay waits for a session with %s", r.destination)
	case r.state.blocked():
		return fmt.Errorf("the relay waits for %s to take messages", r.destination)
	case r.counters.refusesAll.Load():
		return fmt.Errorf("%s refuses every event", r.destination)
	}
	return nil
}

// blockedAfter is how long a worker waits before the relay counts as blocked.
const blockedAfter = 100 * time.Millisecond

// unblocked waits while the destination asks its publishers to wait. It returns an error if ctx or
// the session ends.
func (w *worker) unblocked(ctx context.Context) error {
	w.state.waitsSince.CompareAndSwap(0, time.Now().UnixNano())
	defer w.state.waitsSince.Store(0)
	return w.session.Unblocked(ctx)
}

func (s *state) blocked() bool {
	since := s.waitsSince.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > blockedAfter
}
