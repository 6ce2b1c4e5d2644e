package system

import (
	"syscall"
	"testing"
)

// TestP11P12ARelayPausedBeyondItsLeaseIsFenced pauses a relay that has a batch in flight,
// lets another relay publish the batch, and resumes the first relay.
func TestP11P12ARelayPausedBeyondItsLeaseIsFenced(t *testing.T) {
	t.Parallel()
	const batch = 20
	s := newSystem(t)
	s.recordOutboxChanges()
	copies := s.subscribe()
	proxy, throughProxy := s.brokerProxy(orderService)
	// The confirm timeout leaves time to pause the relay after its claim.
	settings := []string{"RELAY_CONFIRM_TIMEOUT=2s", "RELAY_LEASE=5s", "RELAY_POLL_INTERVAL=10ms"}
	paused := s.runOrdersCommand("relay", append(settings, throughProxy)...)
	s.insertEvents(createdEvents(1)...)
	s.awaitCount(s.ordersDB, 1, publishedCount)

	proxy.Stall()
	before := paused.logLength()
	s.insertEvents(createdEvents(batch)...)
	s.awaitCount(s.ordersDB, batch, inProgressCount)
	paused.awaitLogAfter(before, "outbox events fetched") // the relay knows that it has the batch
	paused.signal(syscall.SIGSTOP)
	s.runOrdersCommand("relay", settings...)
	s.awaitCount(s.ordersDB, 1+batch, publishedCount)

	// It still gets no confirm, so without the fence it would release the batch, at the latest when it
	// ends.
	paused.signal(syscall.SIGCONT)
	paused.stop()
	if got := queryValue[int](s, s.ordersDB, reversalCount); got != 0 {
		t.Errorf("%d events lost their state published", got)
	}
	if got := queryValue[int](s, s.ordersDB, inProgressCount); got != 0 {
		t.Errorf("%d events are still in_progress", got)
	}

	proxy.Resume()
	s.insertEvents(createdEvents(batch)...)
	s.awaitCount(s.ordersDB, 1+2*batch, publishedCount)
	copies.awaitMessages(1 + 2*batch)
	if got := copies.repeats(); got > batch {
		t.Errorf("%d messages came twice, want at most the batch of %d", got, batch)
	}
}
