package publisher_test

import (
	"errors"
	"sort"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/examples/nats/natstest"
	"example.com/transactional-outbox/examples/nats/publisher"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/servers"
)

func message(destination, id string) publish.Message {
	return publish.Message{
		ID: id, Destination: destination, Topic: "order.created", Group: "group-1",
		ContentType: "application/json", AppID: "order-service", Timestamp: time.Now(), Body: []byte("{}"),
	}
}

func open(t *testing.T, s *publisher.Session) publish.Publisher {
	t.Helper()
	p, err := s.NewPublisher(10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// declare creates the stream EVENTS for the destination events.
func declare(t *testing.T, s *publisher.Session) {
	t.Helper()
	if err := s.Declare(t.Context(), publisher.Stream{Name: "EVENTS", Destination: "events", Replicas: 1}); err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsSentAfterTheConnectionIsBack publishes while the server cannot be reached. With the
// client library's defaults the message waits in a buffer, and is sent after a reconnect.
func TestNothingIsSentAfterTheConnectionIsBack(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.SyncAlways)
	direct := connect(t, server.URL())
	declare(t, direct)
	proxy, through := servers.ProxyFor(t, server.URL())
	session := connect(t, through)
	first := open(t, session)
	requireOutcome(t, publish.All(first, []publish.Message{message("events", "1")}, limit)[0], publish.Confirmed, nil)

	proxy.Refuse(true)
	proxy.Cut()
	if r := publish.All(first, []publish.Message{message("events", "2")}, limit)[0]; r.Outcome != publish.Unknown && r.Outcome != publish.NotSent {
		t.Errorf("the outcome is %d (%v)", r.Outcome, r.Err)
	}
	accepted := proxy.Accepted()
	proxy.Refuse(false)
	awaitEnd(t, session, server)
	if n := proxy.Accepted() - accepted; n > 0 {
		t.Errorf("the session has connected again, %d times", n)
	}
	if stored := messagesOf(t, server, "EVENTS"); stored != 1 {
		t.Errorf("the stream has %d messages, want only the one from before", stored)
	}
}

// awaitEnd waits until the session cannot be used any more, or has sent a message after all.
func awaitEnd(t *testing.T, session *publisher.Session, server *natstest.Server) {
	t.Helper()
	for deadline := time.Now().Add(limit); canPublish(session) && messagesOf(t, server, "EVENTS") == 1; {
		if time.Now().After(deadline) {
			t.Fatalf("after %s the session still says that it can be used", limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func canPublish(s *publisher.Session) bool {
	_, err := s.NewPublisher(1)
	return err == nil
}

func messagesOf(t *testing.T, server *natstest.Server, stream string) uint64 {
	t.Helper()
	found, err := newJetStream(t, server).Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return found.CachedInfo().State.Msgs
}

func requireOutcome(t *testing.T, r publish.Result, want publish.Outcome, reason error) {
	t.Helper()
	if r.Outcome != want || reason != nil && !errors.Is(r.Err, reason) {
		t.Fatalf("the outcome is %d (%v), want %d (%v)", r.Outcome, r.Err, want, reason)
	}
}

// TestAReturnedMessageIsNotSentAgain: the client library repeats a message that no stream takes
// after 250 ms. By then, later messages of its group may be stored.
func TestAReturnedMessageIsNotSentAgain(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.SyncAlways)
	session, js := connect(t, server.URL()), newJetStream(t, server)
	declare(t, session)
	first, second := message("late", "1"), message("events", "2")
	created := make(chan error, 1)
	go func() {
		for messagesOf(t, server, "EVENTS") == 0 {
			time.Sleep(time.Millisecond)
		}
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LATE", Subjects: []string{"late.>"}})
		created <- err
	}()
	results := publish.All(open(t, session), []publish.Message{first, second}, limit)
	requireOutcome(t, results[0], publish.Returned, nil)
	requireOutcome(t, results[1], publish.Confirmed, nil)
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	if n := messagesOf(t, server, "LATE"); n != 0 {
		t.Errorf("the stream has %d messages, want none", n)
	}
}

// TestAForbiddenSubjectEndsTheSession: the server says that on the connection, not to the message.
func TestAForbiddenSubjectEndsTheSession(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.SyncAlways,
		`authorization { users: [ { user: u, password: p, permissions: { publish: { deny: "events.>" } } } ] }`, "no_auth_user: u")
	session := connect(t, server.URL())
	declare(t, session)
	result := publish.All(open(t, session), []publish.Message{message("events", "1")}, limit)[0]
	requireOutcome(t, result, publish.Unknown, publish.ErrClosed)
}

func TestWhatTheStreamNeverTakesIsInvalid(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.SyncAlways)
	session := connect(t, server.URL())
	_, err := newJetStream(t, server).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "EVENTS", Subjects: []string{"events.>"}, MaxMsgSize: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	large := message("events", "1")
	large.Body = make([]byte, 1000)
	requireOutcome(t, publish.All(open(t, session), []publish.Message{large}, limit)[0], publish.Invalid, publish.ErrTooLarge)
}

// TestTheLargestMessageIsTaken: with one byte more than max_payload, the server ends the
// connection.
func TestTheLargestMessageIsTaken(t *testing.T) {
	t.Parallel()
	session := connect(t, natstest.Start(t, natstest.SyncAlways).URL())
	declare(t, session)
	p, m := open(t, session), message("events", "1")
	fits := func(n int) bool {
		m.Body = make([]byte, n)
		return publish.All(p, []publish.Message{m}, limit)[0].Outcome == publish.Confirmed
	}
	largest := sort.Search(1<<20, func(n int) bool { return !fits(n) }) - 1
	if headers := 1<<20 - largest; headers > 1000 {
		t.Errorf("the largest body has %d bytes", largest)
	}
	m.Body = make([]byte, largest+1)
	requireOutcome(t, publish.All(p, []publish.Message{m}, limit)[0], publish.Invalid, publish.ErrTooLarge)
	if !canPublish(session) {
		t.Error("the session has ended")
	}
}
