package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// confirmTimeout is how long a single message may take to be confirmed.
const confirmTimeout = 10 * time.Second

// Outlet publishes single messages for many goroutines, over whichever session
// serves it at the time.
type Outlet struct{ requests chan request }

type request struct {
	message Message
	reply   chan<- Result
}

// NewOutlet returns an outlet that nothing serves yet.
func NewOutlet() *Outlet { return &Outlet{requests: make(chan request)} }

// Publish returns nil once the broker has confirmed m and routed it to a queue. It
// waits for a session as long as there is none, until ctx ends. After an error the
// message may or may not be there.
func (o *Outlet) Publish(ctx context.Context, m Message) error {
	reply := make(chan Result, 1)
	select {
	case o.requests <- request{m, reply}:
	case <-ctx.Done():
		return fmt.Errorf("waiting for a session: %w", context.Cause(ctx))
	}
	// Serve always replies: it does not wait for the broker for ever.
	return (<-reply).Err
}

// Serve answers the requests on s until ctx ends, the session fails, or a message
// finds no queue.
func (o *Outlet) Serve(ctx context.Context, s *Session) error {
	publisher, err := s.NewPublisher(1)
	if err != nil {
		return err
	}
	for {
		if err := s.Unblocked(ctx); err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case r := <-o.requests:
			result := publisher.Publish([]Message{r.message}, confirmTimeout)[0]
			r.reply <- result
			// Returned, too: a queue is gone, and a new session declares it again.
			if result.Outcome == Unknown || result.Outcome == Returned {
				return errors.Join(errors.New("publishing a copy"), result.Err)
			}
		}
	}
}
