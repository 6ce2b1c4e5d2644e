package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// confirmTimeout limits the wait for the confirm of a message.
const confirmTimeout = 10 * time.Second

// outletWindow is about how many messages of an outlet wait for their confirms on one channel.
const outletWindow = 256

// Outlet publishes single messages for many goroutines on the session that currently serves it.
type Outlet struct{ serving chan *outletSession }

type outletSession struct {
	*Publisher
	users  sync.WaitGroup
	failed chan error
}

// NewOutlet returns an outlet that no session serves yet.
func NewOutlet() *Outlet { return &Outlet{serving: make(chan *outletSession)} }

// Publish returns nil when the broker has confirmed m and routed it to a queue. While no session
// serves the outlet, Publish waits until ctx ends. After an error the broker may or may not have
// the message.
func (o *Outlet) Publish(ctx context.Context, m Message) error {
	var s *outletSession
	select {
	case s = <-o.serving:
	case <-ctx.Done():
		return fmt.Errorf("waiting for a session: %w", context.Cause(ctx))
	}
	defer s.users.Done()
	result := publish.All(s.Publisher, []Message{m}, confirmTimeout)[0] //nolint:contextcheck // it has a timeout
	switch result.Outcome {
	case publish.Unknown, publish.NotSent, publish.Returned: // Returned: a queue is gone, and a new session declares it again
		select {
		case s.failed <- errors.Join(errors.New("publishing a copy"), result.Err):
		default: // another message has ended the session
		}
	default:
	}
	return result.Err
}

// Serve publishes the messages on s until ctx ends, the session fails, or no queue is bound for
// a message. It waits for the answers to those that it has taken.
func (o *Outlet) Serve(ctx context.Context, s *Session) error {
	publisher, err := s.NewPublisher(outletWindow)
	if err != nil {
		return err
	}
	serving := &outletSession{Publisher: publisher, failed: make(chan error, 1)}
	defer serving.users.Wait()
	for s.Unblocked(ctx) == nil {
		serving.users.Add(1)
		select {
		case o.serving <- serving:
			continue
		case err = <-serving.failed:
		case <-ctx.Done():
		}
		serving.users.Done()
		return err
	}
	return nil
}
