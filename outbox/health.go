package outbox

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// healthState is what the relay does now.
type healthState struct {
	running  atomic.Bool
	database atomic.Pointer[error] // why the last statement failed, or nil
	blocked  atomic.Bool           // the destination asks to wait
	sessions atomic.Int64          // with the destination
	// listening says that the relay is notified of events that other processes commit.
	listening atomic.Bool
}

var errAwaited = errors.New("it has not answered yet")

// Health returns nil if the relay can publish, and otherwise an error that says what it waits for.
// A paused topic is no error, because the others go on. It reads only memory, so you can call it
// often. Use it as the readiness of a process that only relays. Do not use it if the process also
// serves requests: these work without the destination.
func (r *Relay) Health() error {
	err := r.state.database.Load()
	switch {
	case !r.state.running.Load():
		return errors.New("the relay does not run")
	case err != nil:
		return fmt.Errorf("the relay waits for the database: %w", *err)
	case r.state.sessions.Load() == 0:
		return fmt.Errorf("the relay waits for a session with %s", r.destination)
	case r.state.blocked.Load():
		return fmt.Errorf("the relay waits for %s to take messages", r.destination)
	}
	return nil
}
