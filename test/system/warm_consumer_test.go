package system

import (
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// workers is the default of CONSUMER_WORKERS.
const workers = 8

// warmUp publishes events until each process has sent an e-mail. After its first success, a
// process takes more than one message at a time.
func (s *system) warmUp(processes []*service) (events []orderEvent) {
	s.Helper()
	for slices.ContainsFunc(processes, func(p *service) bool { return outcomes([]*service{p}, "success") == 0 }) {
		more := newEvents(1)
		s.publishUntilRouted(more...)
		events = append(events, more...)
		s.awaitOutcomes(len(events), processes, "success")
	}
	return events
}

// startWarmConsumer starts notification-service and lets it succeed with a first message. After
// that it takes more than one message at a time.
func (s *system) startWarmConsumer(settings ...string) (running *service, first amqp.Publishing) {
	s.Helper()
	running, first = s.startConsumer(settings...), orderFor("first@example.com")
	s.publish(first)
	s.awaitOutcomes(1, []*service{running}, "success")
	return running, first
}
