package publisher_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/examples/nats/natstest"
	"example.com/transactional-outbox/examples/nats/publisher"
)

func TestAStreamThatLosesMessagesIsAnError(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.SyncAlways)
	session, js := connect(t, server.URL()), newJetStream(t, server)
	declared := publisher.Stream{Name: "EVENTS", Destination: "events", Replicas: 1}
	// The server removes its folder of streams together with the last one, and a stream that is
	// created at that moment fails. So one stream stays.
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "STAYS", Subjects: []string{"stays"}}); err != nil {
		t.Fatal(err)
	}
	good := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Discard: jetstream.DiscardNew}
	for wrong, change := range map[string]func(*jetstream.StreamConfig){
		"storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"discard policy":       func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
	} {
		config := good
		change(&config)
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if err := session.Declare(t.Context(), declared); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: the error is %v", wrong, err)
		}
		if err := js.DeleteStream(t.Context(), "EVENTS"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time it exists
		if err := session.Declare(t.Context(), declared); err != nil {
			t.Error(err)
		}
	}
}
