package googlepubsub_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/transactional-outbox/examples/pubsub/fake"
	"example.com/transactional-outbox/examples/pubsub/googlepubsub"
	"example.com/transactional-outbox/outbox/publish"
)

func TestEachErrorHasItsOutcome(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.session(0)
	for code, want := range map[codes.Code]publish.Outcome{
		codes.NotFound:           publish.Returned,
		codes.InvalidArgument:    publish.Refused,
		codes.PermissionDenied:   publish.Refused,
		codes.ResourceExhausted:  publish.Refused,
		codes.FailedPrecondition: publish.Refused,
		codes.DeadlineExceeded:   publish.Unknown,
		codes.Unavailable:        publish.Unknown,
		codes.Canceled:           publish.Unknown,
		codes.Internal:           publish.Unknown,
		codes.Aborted:            publish.Unknown,
		codes.Unknown:            publish.Unknown,
		codes.Unauthenticated:    publish.Unknown,
	} {
		before := l.server.Calls(fake.Publish)
		l.server.Fail(fake.Publish, status.Error(code, "injected"))
		l.want(l.publisher(s), message("a"), want)
		if calls := l.server.Calls(fake.Publish) - before; calls != 1 {
			t.Errorf("%s: %d requests, want 1: the library must not repeat them", code, calls)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(time.Hour))
	for _, destination := range []string{unheard, missing} {
		m := message("a")
		m.Destination = destination
		l.want(p, m, publish.Returned)
	}
	if got := l.stored(); len(got) > 0 {
		t.Errorf("the server has %d messages of topics without a subscription", len(got))
	}
	l.want(p, message("a"), publish.Confirmed)
}

// TestTheFakeConfirmsWhatItDrops shows why the publisher looks for subscriptions.
func TestTheFakeConfirmsWhatItDrops(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(time.Hour))
	l.must(l.server.Unsubscribe(t.Context(), orders))
	l.want(p, message("a"), publish.Confirmed) // its last look was less than an hour ago
	l.must(l.server.Subscribe(t.Context(), topic, orders))
	m := message("a")
	l.want(p, m, publish.Confirmed)
	received := &received{lab: l}
	if got := received.atLeast(t, 1); len(got) != 1 || got[0].ID != m.ID {
		t.Errorf("the new subscription has %v, want only what was published after it", got)
	}
}

func TestEachBatchLooksForASubscription(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(0))
	l.want(p, message("a"), publish.Confirmed)
	l.must(l.server.Unsubscribe(t.Context(), orders))
	l.want(p, message("a"), publish.Returned)
	l.must(l.server.Subscribe(t.Context(), topic, orders))
	l.want(p, message("a"), publish.Confirmed)
	l.must(l.server.Unsubscribe(t.Context(), orders))
	l.want(p, message("a"), publish.Returned)
}

func TestALookIsRepeatedAfterItsTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const every = 50 * time.Millisecond
	p := l.publisher(l.session(every))
	l.must(l.server.Unsubscribe(t.Context(), orders))
	deleted := time.Now()
	for {
		began := time.Now()
		r := publish.All(p, []publish.Message{message("a")}, limit)[0]
		if r.Outcome == publish.Returned {
			return
		}
		if late := began.Sub(deleted); late > every {
			t.Fatalf("a batch that began %s after the deletion is %d, want Returned after %s", late, r.Outcome, every)
		}
	}
}

func TestABatchLooksOnceForEachTopic(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(0))
	var batch []publish.Message
	for _, group := range []string{"a", "b", "c", "d"} {
		m := message(group)
		m.Destination = unheard
		batch = append(batch, message(group), m)
	}
	before := l.server.Calls(fake.ListTopicSubscriptions)
	publish.All(p, batch, limit)
	if looks := l.server.Calls(fake.ListTopicSubscriptions) - before; looks != 2 {
		t.Errorf("%d looks for 2 topics", looks)
	}
}

func TestAFailedLookPublishesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(0))
	l.server.Fail(fake.ListTopicSubscriptions, status.Error(codes.Unavailable, "injected"))
	l.want(p, message("a"), publish.NotSent)
	if got := l.stored(); len(got) > 0 {
		t.Error("a message was published, and nobody knows whether anybody listens")
	}
}

func TestConnectNeedsTheTopics(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := googlepubsub.Config{Project: project, Topics: []string{missing}}
	_, err := googlepubsub.Connect(t.Context(), c, l.options()...)
	if status.Code(err) != codes.NotFound {
		t.Errorf("the error is %v, want NotFound", err)
	}
}

func TestClosedSessionPublishesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.session(time.Hour)
	p := l.publisher(s)
	s.Close()
	l.want(p, message("a"), publish.NotSent)
	if _, err := s.NewPublisher(1); err == nil {
		t.Error("a closed session gives a publisher")
	}
}
