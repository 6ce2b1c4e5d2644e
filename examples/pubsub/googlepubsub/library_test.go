package googlepubsub_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/transactional-outbox/examples/pubsub/fake"
	"example.com/transactional-outbox/examples/pubsub/googlepubsub"
)

// library returns the Publisher of pubsub/v2, for the tests that show why a relay does not use it.
func (l lab) library() *pubsub.Publisher {
	l.Helper()
	client, err := pubsub.NewClient(l.Context(), project, l.options()...)
	l.must(err)
	l.Cleanup(func() { _ = client.Close() })
	p := client.Publisher(topic)
	p.EnableMessageOrdering = true
	l.Cleanup(p.Stop)
	return p
}

// get publishes a message, and waits at most this long for the outcome.
func (l lab) get(p *pubsub.Publisher, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(l.Context(), wait)
	defer cancel()
	m := &pubsub.Message{Attributes: map[string]string{googlepubsub.ID: id}, OrderingKey: "a"}
	_, err := p.Publish(ctx, m).Get(ctx)
	return err
}

func TestTheLibraryPublishesAfterItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.library()
	l.proxy.Refuse(true)
	l.proxy.Cut() // the library may have connected already
	if err := l.get(p, "given up", 200*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the error is %v, want a timeout", err)
	}
	l.proxy.Refuse(false)
	l.await("what the caller gave up", func() bool { return slices.Contains(l.stored(), "given up") })
}

func TestTheLibraryStopsAnOrderUntilItIsResumed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.library()
	l.server.Fail(fake.Publish, status.Error(codes.PermissionDenied, "injected"))
	if err := l.get(p, "refused", limit); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("the error is %v, want PermissionDenied", err)
	}
	l.server.Fail(fake.Publish, nil)
	for range 3 {
		err := l.get(p, "paused", limit)
		if _, paused := errors.AsType[pubsub.ErrPublishingPaused](err); !paused {
			t.Fatalf("the server takes messages again, and the error is %v, want ErrPublishingPaused", err)
		}
	}
	p.ResumePublish("a")
	l.must(l.get(p, "resumed", limit))
	if got := l.stored(); !slices.Equal(got, []string{"resumed"}) {
		t.Errorf("stored are %v, want only what was published after ResumePublish", got)
	}
}
