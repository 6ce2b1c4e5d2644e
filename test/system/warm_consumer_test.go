package system

import amqp "github.com/rabbitmq/amqp091-go"

// startWarmConsumer starts notification-service, and lets it handle a first message. After that it
// takes more than one message at a time.
func (s *system) startWarmConsumer(settings ...string) (running *service, first amqp.Publishing) {
	s.Helper()
	running, first = s.startConsumer(settings...), orderFor("first@example.com")
	s.publish(first)
	s.awaitHandled(1, running)
	s.awaitCount(s.notificationsDB, 1, sentCount)
	return running, first
}
