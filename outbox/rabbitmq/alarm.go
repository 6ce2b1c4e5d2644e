package rabbitmq

import (
	"context"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// alarm says whether the broker blocks its publishers, because it has little memory or disk.
type alarm struct {
	mu   sync.Mutex
	over chan struct{}     // closed at the end of the alarm; nil while there is none
	told func(active bool) // of each change; may be nil
}

// set records what the broker says, and reports a change. The broker may say the same twice.
func (a *alarm) set(active bool) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case active && a.over == nil:
		a.over = make(chan struct{})
	case !active && a.over != nil:
		close(a.over)
		a.over = nil
	default:
		return false
	}
	if a.told != nil {
		a.told(active)
	}
	return true
}

// tell calls f at each change from now on, and at once if there is an alarm.
func (a *alarm) tell(f func(active bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told = f; f != nil && a.over != nil {
		f(true)
	}
}

// end returns a channel that is closed at the end of the alarm, or nil if there is no alarm.
func (a *alarm) end() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

func (s *Session) noteBlocked(b amqp.Blocking) {
	switch changed := s.alarm.set(b.Active); {
	case changed && b.Active:
		s.logger.Warn("the broker blocks publishers", "reason", b.Reason)
	case changed:
		s.logger.Info("the broker takes messages again")
	}
}

// Blocked reports that the broker accepts no messages, because of a memory or disk alarm.
func (s *Session) Blocked() bool { return s.alarm.end() != nil }

// Unblocked returns when the broker accepts messages. It waits only during a memory or disk alarm,
// and until the connection ends.
func (s *Session) Unblocked(ctx context.Context) error {
	over := s.alarm.end()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-s.ended:
		return amqp.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
