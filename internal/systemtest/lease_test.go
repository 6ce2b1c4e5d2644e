package systemtest

import (
	"syscall"
	"testing"
)

// TestP11P12ARelayThatSleptBeyondItsLeaseWritesNothingStale stops a relay that has a
// batch in flight, lets another one publish the batch, and wakes the first one up.
func TestP11P12ARelayThatSleptBeyondItsLeaseWritesNothingStale(t *testing.T) {
	t.Parallel()
	const batch = 20
	s := newSystem(t)
	s.watch()
	copies := s.tap()
	proxy, throughProxy := s.proxied(orderService)
	// Time enough to stop it between the claim and the end of its patience.
	settings := []string{"RELAY_CONFIRM_TIMEOUT=2s", "RELAY_LEASE=6s", "RELAY_POLL_INTERVAL=10ms"}
	sleeper := s.runOrdersAs("relay", append(settings, throughProxy)...)
	s.commit(events(1)...)
	s.awaitCount(s.orders, 1, published)

	proxy.Stall()
	s.commit(events(batch)...)
	s.awaitCount(s.orders, batch, inProgress)
	sleeper.signal(syscall.SIGSTOP)
	s.runOrdersAs("relay", settings...)
	s.awaitCount(s.orders, 1+batch, published)

	// It hears of no confirm even now: it would give the batch back.
	asleep := sleeper.lines()
	sleeper.signal(syscall.SIGCONT)
	sleeper.awaitAfter(asleep, noSession)
	if got := one[int](s, s.orders, regrets); got != 0 {
		t.Errorf("%d events were published, and then were not", got)
	}
	if got := one[int](s, s.orders, inProgress); got != 0 {
		t.Errorf("%d events are left in progress", got)
	}
	sleeper.awaitMetric("outbox_lease_lost_total", batch)

	proxy.Resume()
	sleeper.awaitAfter(asleep, "connected to the broker")
	s.commit(events(batch)...)
	s.awaitCount(s.orders, 1+2*batch, published)
	copies.awaitMessages(1 + 2*batch)
	if got := copies.repeats(); got > batch {
		t.Errorf("%d messages came twice, want at most the batch of %d", got, batch)
	}
}
