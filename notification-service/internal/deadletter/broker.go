package deadletter

import (
	"context"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Queue is the queue of the dead letters, and where they are replayed to.
type Queue struct {
	Name    string
	Requeue string // a fanout exchange to which only the service's own queue is bound
	Connect Connect
}

// Connect calls use once, with a session.
type Connect func(ctx context.Context, use func(context.Context, Session) error) error

// Session is a connection with the broker.
type Session interface {
	// Browse begins to read a queue.
	Browse(queue string) (Browser, error)
	// NewPublisher opens a channel. Usually at most window messages have no answer yet.
	NewPublisher(window int) (Publisher, error)
	// Unblocked waits until the broker takes messages.
	Unblocked(ctx context.Context) error
}

// Browser takes the messages of a queue, one after the other. At the end it gives back those
// that were not removed.
type Browser interface {
	Count() int
	Next() (taken rabbitmq.BrowsedMessage, ok bool, err error)
	// Removed returns nil when the broker has processed all removals so far.
	Removed() error
	Requeue() error
}

// Publisher publishes a batch and hands the answers back, as a [rabbitmq.Publisher] does.
type Publisher interface {
	Publish(ctx context.Context, messages []rabbitmq.Message, answer func(i int, r publish.Result))
}

// Adapt returns s as the interface that this package uses.
func Adapt(s *rabbitmq.Session) Session { return session{s} }

type session struct{ *rabbitmq.Session }

// Browse begins to read a queue.
func (s session) Browse(queue string) (Browser, error) { return s.Session.Browse(queue) }

// NewPublisher opens a channel.
func (s session) NewPublisher(window int) (Publisher, error) { return s.Session.NewPublisher(window) }
