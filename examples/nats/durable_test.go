package main

import (
	"os"
	"strings"
	"testing"

	"example.com/transactional-outbox/examples/nats/natstest"
)

// TestTheRelayRefusesAServerThatMayLoseMessages: it ends with an error, unless a setting allows
// such a server. Then it logs at each start that P3 does not hold.
func TestTheRelayRefusesAServerThatMayLoseMessages(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.nats = natstest.Start(t, natstest.SyncDefault)
	refused := s.relay()
	s.until("the end of the relay", func() bool { return !refused.Alive() })
	if log := s.read("relay"); refused.State().ExitCode() != 1 || !strings.Contains(log, "sync_interval: always") {
		t.Errorf("the relay ended with %s:\n%s", refused.State(), log)
	}
	s.relay("NATS_ALLOW_UNSYNCED=true")
	s.place(1)
	s.await("published events", s.ordersURL, publishedSQL, 1)
	if !strings.Contains(s.read("relay"), "promise P3 does not hold") {
		t.Error("the relay does not say that P3 does not hold")
	}
}

func (s *system) read(name string) string {
	s.Helper()
	log, err := os.ReadFile(s.log(name))
	if err != nil {
		s.Fatal(err)
	}
	return string(log)
}
