package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// confirmTimeout is for all confirms of the messages that are published together.
const confirmTimeout = 10 * time.Second

// Outlet publishes single messages for many goroutines, over whichever session serves it
// at the time. What waits at the same time is published together.
type Outlet struct{ requests chan request }

type request struct {
	message Message
	reply   chan<- Result
}

// maxOutlet is how many messages are published together.
const maxOutlet = 64

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
	publisher, err := s.NewPublisher(maxOutlet)
	if err != nil {
		return err
	}
	for {
		if err := s.Unblocked(ctx); err != nil {
			return nil
		}
		requests := o.gather(ctx)
		if len(requests) == 0 {
			return nil
		}
		if publisher, err = serve(s, publisher, requests); err != nil {
			return err
		}
	}
}

// gather waits for a first request, and takes those that wait already.
func (o *Outlet) gather(ctx context.Context) (requests []request) {
	select {
	case <-ctx.Done():
		return nil
	case r := <-o.requests:
		requests = append(requests, r)
	}
	for len(requests) < maxOutlet {
		select {
		case r := <-o.requests:
			requests = append(requests, r)
		default:
			return requests
		}
	}
	return requests
}

// serve publishes a batch, and returns the publisher for the next one. An error says that
// the session is of no more use.
func serve(s *Session, publisher *Publisher, requests []request) (*Publisher, error) {
	messages := make([]Message, 0, len(requests))
	for _, r := range requests {
		messages = append(messages, r.message)
	}
	var failure error
	refused := false
	for i, result := range publisher.Publish(messages, confirmTimeout) {
		requests[i].reply <- result
		switch result.Outcome {
		case Unknown, Returned: // Returned: a queue is gone, and a new session declares it again
			failure = errors.Join(errors.New("publishing a copy"), result.Err)
		case Refused:
			refused = true
		default:
		}
	}
	if failure != nil || !refused {
		return publisher, failure
	}
	// RabbitMQ 3.10 goes on refusing on the old channel when the queue takes messages again.
	publisher.Close()
	return s.NewPublisher(maxOutlet)
}
