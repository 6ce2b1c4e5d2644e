package rabbitmq

import (
	"time"

	"example.com/transactional-outbox/internal/publish"
)

// EventPublisher publishes a relay's messages.
type EventPublisher struct{ *Publisher }

// NewEventPublisher opens a channel for batches of at most window messages.
func (s *Session) NewEventPublisher(window int) (EventPublisher, error) {
	publisher, err := s.NewPublisher(window)
	return EventPublisher{publisher}, err
}

// Publish is [Publisher.Publish]. RabbitMQ keeps the order of all messages of a channel, so it
// does not need their groups.
func (p EventPublisher) Publish(messages []publish.Message, timeout time.Duration) []publish.Result {
	converted := make([]Message, len(messages))
	for i, m := range messages {
		converted[i] = Message{
			ID: m.ID, Type: m.Key, Exchange: m.Destination, RoutingKey: m.Key,
			ContentType: m.ContentType, AppID: m.AppID, Timestamp: m.Timestamp, Headers: m.Headers, Body: m.Body,
		}
	}
	return p.Publisher.Publish(converted, timeout)
}
