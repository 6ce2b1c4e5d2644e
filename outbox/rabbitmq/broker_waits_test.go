package rabbitmq

import (
	"log/slog"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestABrokerWaitsOnlyIfNoSessionWorks: a relay has a session for each worker.
func TestABrokerWaitsOnlyIfNoSessionWorks(t *testing.T) {
	t.Parallel()
	const alarm = "the broker to take messages: it has a memory or disk alarm"
	var told []string
	b := NewBroker("", "e")
	b.Waits = func(what string) { told = append(told, what) }
	one, other := &Session{logger: slog.Default()}, &Session{logger: slog.Default()}
	begins := func(s *Session) { b.sessions.Store(s, nil); b.tell("") }
	ends := func(s *Session) { b.sessions.Delete(s); b.tell("a session") }
	blocks := func(s *Session, active bool) {
		s.noteBlocked(amqp.Blocking{Active: active}, func() { b.tell("a session") })
	}
	b.tell("a session")
	begins(one)
	b.tell("a session") // the first one works
	begins(other)
	blocks(one, true)
	blocks(other, true)
	blocks(other, true) // the broker may say the same twice
	blocks(one, false)
	ends(one)
	ends(other)
	b.tell("another topology")
	if want := []string{"a session", "", alarm, "", alarm, "a session", "another topology"}; !slices.Equal(told, want) {
		t.Errorf("told were %q, want %q", told, want)
	}
}
