package system

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
)

// TestP9WithoutCopiesOthersGoOn has messages that must be copied to a retry queue or to the dead
// letters, while no copy can be made. They wait, and all others are handled.
func TestP9WithoutCopiesOthersGoOn(t *testing.T) {
	t.Parallel()
	const each, fullQueue = 10, `{"max-length": 1, "overflow": "reject-publish"}`
	alarm := func(s *system) func() {
		s.setMemoryAlarm(true)
		return func() { s.setMemoryAlarm(false) }
	}
	for name, test := range map[string]struct {
		private, first bool // the bad messages come first after a start
		begin          func(*system) (mend func())
	}{
		"the queues are full": {begin: func(s *system) func() {
			s.setPolicy(`^notification-service\.(retry\.|dlq)`, fullQueue)
			for _, queue := range append(slices.Clone(quickTiers), deadLetterQueue) {
				s.fillQueue(queue)
			}
			return s.clearPolicy // RabbitMQ 3.10 still rejects messages on the channels on which it has rejected some
		}},
		"an exchange and a queue are deleted, until the service declares them": {begin: func(s *system) func() {
			s.deleteExchange(deadLetterExchange)
			s.deleteQueue(quickTiers[0])
			return func() {}
		}},
		"an alarm":                  {private: true, begin: alarm},
		"an alarm, just at a start": {private: true, first: true, begin: alarm},
		"an alarm, for longer than the broker waits for an acknowledgement": {private: true, begin: func(s *system) func() {
			// By default it is 30 minutes, and the broker looks once a minute.
			for name, milliseconds := range map[string]int{"consumer_timeout": 1500, "channel_tick_interval": 200} {
				_, err := s.broker.Ctl(s.Context(), "eval", fmt.Sprintf("application:set_env(rabbit, %s, %d).", name, milliseconds))
				must(s.T, err)
			}
			return alarm(s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := sharedBroker
			if test.private {
				broker = servers.RabbitMQ(t)
			}
			s := newSystemOn(t, sharedDatabase, broker)
			running, first := s.startWarmConsumer()
			var bad, failing []amqp.Publishing
			for range each {
				bad, failing = append(bad, malformed()), append(failing, orderFor("failing@example.com"))
			}
			mendOrder := s.failOrders("P0001", failing...)
			good := newOrders(goodCount)
			all := slices.Concat(bad, failing, good)
			if test.first {
				running.stop()
			} else {
				running.signal(syscall.SIGSTOP) // an alarm blocks the test's own publishing too
			}
			s.publish(all...)
			mend := test.begin(s)
			if test.first {
				running = s.runNotifications()
			} else {
				running.signal(syscall.SIGCONT)
			}
			s.wantCount(awaitTimeout, s.notificationsDB, 1+goodCount, sentCount)
			if !eventually(awaitTimeout, func() bool { // the broker's own limit may end the channel before the attempt
				return len(running.logLines("no copy yet, trying until there is one"))+len(running.logLines("not acknowledged, it will come again")) > 0
			}) {
				t.Error("every copy was made")
			}

			mend()
			for _, m := range failing {
				mendOrder(m)
			}
			s.wantCount(awaitTimeout, s.notificationsDB, 1+goodCount+each, sentCount)
			s.awaitDeadLetters(bad)
			s.wantOneEmailEach(slices.Concat(good, failing, []amqp.Publishing{first})...)
			s.wantQueuesEmpty()
		})
	}
}
