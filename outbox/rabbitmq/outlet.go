package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// confirmTimeout limits the wait for all confirms of one batch.
const confirmTimeout = 10 * time.Second

// Outlet publishes single messages for many goroutines on the session that currently serves it. It
// publishes messages that wait at the same time together.
type Outlet struct{ requests chan request }

type request struct {
	message Message
	reply   chan<- publish.Result
}

// maxOutletBatch is how many messages are published together.
const maxOutletBatch = 64

// NewOutlet returns an outlet that no session serves yet.
func NewOutlet() *Outlet { return &Outlet{requests: make(chan request)} }

// Publish returns nil when the broker has confirmed m and routed it to a queue. While no session
// serves the outlet, Publish waits until ctx ends. After an error the broker may or may not have
// the message.
func (o *Outlet) Publish(ctx context.Context, m Message) error {
	reply := make(chan publish.Result, 1)
	select {
	case o.requests <- request{m, reply}:
	case <-ctx.Done():
		return fmt.Errorf("waiting for a session: %w", context.Cause(ctx))
	}
	// Serve always replies, because its wait for the broker is limited.
	return (<-reply).Err
}

// Serve publishes the requests on s until ctx ends, the session fails, or no queue is bound for
// a message.
func (o *Outlet) Serve(ctx context.Context, s *Session) error {
	publisher, err := s.NewPublisher(maxOutletBatch)
	if err != nil {
		return err
	}
	for {
		if err := s.Unblocked(ctx); err != nil {
			return nil
		}
		requests := o.collectRequests(ctx)
		if len(requests) == 0 {
			return nil
		}
		if publisher, err = serve(s, publisher, requests); err != nil {
			return err
		}
	}
}

// collectRequests waits for a first request, and adds the requests that already wait.
func (o *Outlet) collectRequests(ctx context.Context) (requests []request) {
	select {
	case <-ctx.Done():
		return nil
	case r := <-o.requests:
		requests = append(requests, r)
	}
	for len(requests) < maxOutletBatch {
		select {
		case r := <-o.requests:
			requests = append(requests, r)
		default:
			return requests
		}
	}
	return requests
}

// serve publishes a batch, and returns the publisher for the next batch. After an error the session
// must not be used again.
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
		case publish.Unknown, publish.Returned: // Returned: a queue is gone, and a new session declares it again
			failure = errors.Join(errors.New("publishing a copy"), result.Err)
		case publish.Refused:
			refused = true
		default:
		}
	}
	if failure != nil || !refused {
		return publisher, failure
	}
	// On the old channel, RabbitMQ 3.10 would go on refusing even when the queue accepts messages
	// again.
	publisher.Close()
	return s.NewPublisher(maxOutletBatch)
}
