package rabbitmq

import (
	"cmp"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// EventPublisher publishes a relay's messages. The consumer's [Message] has the event's ID, and its
// topic as RoutingKey and Type. Timestamp is when the event was created, in seconds. Headers has
// the event's headers and its trace. It has neither Aggregate, AggregateID nor Version.
type EventPublisher struct {
	*Publisher
	exchange string // of the messages without a destination
}

// NewEventPublisher opens a channel for batches of at most window messages.
func (s *Session) NewEventPublisher(window int) (EventPublisher, error) {
	publisher, err := s.NewPublisher(window)
	return EventPublisher{Publisher: publisher}, err
}

// Publish is [Publisher.Publish]. RabbitMQ keeps the order of all messages of a channel, so it
// does not need their groups.
func (p EventPublisher) Publish(messages []publish.Message, timeout time.Duration) []publish.Result {
	converted := make([]Message, len(messages))
	for i, m := range messages {
		converted[i] = Message{
			ID: m.ID, Type: m.Topic, Exchange: cmp.Or(m.Destination, p.exchange), RoutingKey: m.Topic,
			ContentType: m.ContentType, AppID: m.AppID, Timestamp: m.Timestamp, Headers: m.Headers, Body: m.Body,
		}
	}
	return p.Publisher.Publish(converted, timeout)
}
