package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	publishedSQL     = "SELECT count(*)::int FROM outbox_events e WHERE NOT EXISTS (SELECT FROM outbox_queue q WHERE q.id = e.id)"
	notificationsSQL = "SELECT count(*)::int FROM outbox_published"
)

// TestEachEventHasItsEffectOnceUnderSIGKILL kills the relay between confirm and mark, the consumer
// before the commit, and between commit and acknowledgement. Then it kills the server, the relay
// and the consumer under load.
func TestEachEventHasItsEffectOnceUnderSIGKILL(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	relay, consumer := s.relay("CRASH_AT=relay.confirmed"), s.consumer("CRASH_AT=effect.recorded")
	s.place(10)
	s.awaitDeath(relay)
	s.awaitDeath(consumer)
	consumer = s.consumer("CRASH_AT=effect.committed")
	s.awaitDeath(consumer)

	relay, consumer = s.relay(), s.consumer()
	placed := make(chan struct{})
	go func() {
		defer close(placed)
		s.place(120)
	}()
	s.await("published events", s.ordersURL, publishedSQL, 40)
	s.nats.Restart(t)
	s.await("published events after the server's restart", s.ordersURL, publishedSQL, 80)
	s.end(relay, syscall.SIGKILL)
	relay = s.relay()
	s.await("notifications", s.notifications, notificationsSQL, 90)
	s.end(consumer, syscall.SIGKILL)
	consumer = s.consumer()
	<-placed
	s.until("all events are published", func() bool {
		return read[int](s, s.ordersURL, "SELECT count(*)::int FROM outbox_queue")[0] == 0
	})
	s.repeatAll()
	s.awaitHandled()
	s.requireOneEffectEach()

	s.end(relay, syscall.SIGTERM)
	s.end(consumer, syscall.SIGTERM)
	if !relay.State().Success() || !consumer.State().Success() {
		t.Errorf("after a SIGTERM the relay ended with %s, and the consumer with %s", relay.State(), consumer.State())
	}
}

// repeatAll publishes each message of the stream once more, with the same id, and one that is
// malformed.
func (s *system) repeatAll() {
	s.Helper()
	for _, m := range s.stored("OUTBOX_EVENTS") {
		s.publish(m.Subject, m.Header, m.Data)
	}
	s.publish("outbox.events.order.created.1", nats.Header{"Type": {"order.created"}}, []byte("no JSON"))
}

// publish repeats a message until the stream no longer remembers its id, and so stores it.
func (s *system) publish(subject string, header nats.Header, body []byte) {
	s.Helper()
	s.until("a repeat is stored", func() bool {
		ack, err := s.js.PublishMsg(s.Context(), &nats.Msg{Subject: subject, Header: header, Data: body})
		if err != nil {
			s.Fatal(err)
		}
		return !ack.Duplicate
	})
}

// stored returns the messages of a stream.
func (s *system) stored(name string) (messages []*jetstream.RawStreamMsg) {
	s.Helper()
	stream, err := s.js.Stream(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	for sequence := uint64(1); sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
		m, err := stream.GetMsg(s.Context(), sequence)
		if err != nil {
			s.Fatal(err)
		}
		messages = append(messages, m)
	}
	return messages
}

// awaitHandled waits until the consumer has acknowledged all messages of the stream.
func (s *system) awaitHandled() {
	s.Helper()
	s.until("all messages are acknowledged", func() bool {
		consumer, err := s.js.Consumer(s.Context(), "OUTBOX_EVENTS", "notification-service")
		return err == nil && consumer.CachedInfo().NumPending == 0 && consumer.CachedInfo().NumAckPending == 0 &&
			read[int](s, s.notifications, "SELECT count(*)::int FROM outbox_queue")[0] == 0
	})
}

func (s *system) requireOneEffectEach() {
	s.Helper()
	events := read[uuid.UUID](s, s.ordersURL, "SELECT id FROM outbox_events ORDER BY 1")
	if got := read[uuid.UUID](s, s.notifications, "SELECT message_id::uuid FROM processed_messages ORDER BY 1"); !slices.Equal(got, events) {
		s.Errorf("%d events, and %d rows of the inbox", len(events), len(got))
	}
	// After a kill the broker may deliver the second event of an order first. Then the first one is
	// overtaken, and has no e-mail. The last one always has.
	sent := read[uuid.UUID](s, s.notifications, "SELECT id FROM outbox_published")
	for _, last := range read[uuid.UUID](s, s.ordersURL, "SELECT DISTINCT ON (aggregate_id) id FROM outbox_events ORDER BY aggregate_id, version DESC") {
		if !slices.Contains(sent, last) {
			s.Errorf("no e-mail for %s, the last event of its order", last)
		}
	}
	stored := len(s.stored("OUTBOX_EVENTS"))
	s.Logf("%d events, %d messages, %d e-mails", len(events), stored, s.emails())
	if stored < 2*len(events)+2 {
		s.Errorf("%d messages for %d events: the relay's own repeat is missing", stored, len(events))
	}
	// The consumer was killed while it sent e-mails at most once, and marks each at once.
	if repeated := s.emails() - len(sent); repeated > 2 {
		s.Errorf("%d e-mails were repeated", repeated)
	}
	if dead := s.stored("NOTIFICATION_SERVICE_DLQ"); len(dead) != 1 || string(dead[0].Data) != "no JSON" ||
		!strings.Contains(dead[0].Header.Get("Failure-Reason"), "malformed") {
		s.Errorf("the dead letters are %+v", dead)
	}
}

// emails counts the e-mails, which are lines in the consumer's log.
func (s *system) emails() int {
	s.Helper()
	log, err := os.ReadFile(s.log("consumer"))
	if err != nil {
		s.Fatal(err)
	}
	return strings.Count(string(log), "e-mail written to the log only")
}
