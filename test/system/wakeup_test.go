package system

import (
	"testing"
)

// noPolling makes a relay depend on its wake-ups.
const noPolling = "RELAY_POLL_INTERVAL=1h"

// startListeningRelay starts a relay that never polls, and a queue for its events.
func (s *system) startListeningRelay() *service {
	s.Helper()
	s.recordEvents()
	relay := s.runOrdersCommand("relay", noPolling)
	relay.awaitLog("connected to the broker")
	relay.awaitLog("listening for events of other processes")
	return relay
}

// wantPublishedOneByOne places orders, and wants each to be published before the next.
func (s *system) wantPublishedOneByOne(orders *service, n int) {
	s.Helper()
	for range n {
		s.awaitCount(s.ordersDB, 1, publishedCount+" AND aggregate_id = $1", s.place(orders))
	}
}

func TestAnOrderOfAnotherProcessNeedsNoPoll(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	relay := s.startListeningRelay()
	s.wantPublishedOneByOne(s.runOrdersCommand("api"), 5)
	if got := relay.metric("outbox_relay_listening"); got != 1 {
		t.Errorf("outbox_relay_listening is %v, want 1", got)
	}
}
