package rabbitmq

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// CountReady returns how many messages of a queue are ready to be delivered. It returns false if
// there is no such queue.
//
// It opens a channel, because the broker closes the channel if the queue does not exist.
func (s *Session) CountReady(queue string) (n int, exists bool, err error) {
	defer s.closeAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return 0, false, fmt.Errorf("opening a channel: %w", err)
	}
	defer func() { _ = channel.Close() }()
	found, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	var reason *amqp.Error
	if errors.As(err, &reason) && reason.Code == amqp.NotFound {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("counting the messages of %s: %w", queue, err)
	}
	return found.Messages, true, nil
}
