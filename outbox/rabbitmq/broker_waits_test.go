package rabbitmq

import (
	"slices"
	"testing"
)

// TestABrokerWaitsOnlyIfNoSessionWorks: a relay has a session for each worker.
func TestABrokerWaitsOnlyIfNoSessionWorks(t *testing.T) {
	t.Parallel()
	var told []string
	b := NewBroker("", "e")
	b.Waits = func(what string) { told = append(told, what) }
	one, other := b.waiting(), b.waiting()
	one("a")
	one("")
	other("b") // the first one works
	one("c")
	other("")
	one("d")
	other("e")
	if want := []string{"a", "", "c", "", "e"}; !slices.Equal(told, want) {
		t.Errorf("told were %q, want %q", told, want)
	}
}

func TestAnAlarmTellsItsState(t *testing.T) {
	t.Parallel()
	var told []bool
	a := &alarm{}
	a.set(true)
	a.tell(func(active bool) { told = append(told, active) })
	a.set(true)
	a.set(false)
	a.tell(nil)
	a.set(true)
	if want := []bool{true, false}; !slices.Equal(told, want) {
		t.Errorf("told were %v, want %v", told, want)
	}
}
