package system

import (
	"testing"

	"example.com/transactional-outbox/test/servers"
)

// shortenDeadLetterRetry makes the broker retry a dead-lettering without a target queue after
// 3 s instead of 180 s. It applies to queues that are declared later.
func shortenDeadLetterRetry(t *testing.T, broker *servers.RabbitMQServer) {
	t.Helper()
	_, err := broker.Ctl(t.Context(), "eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 3000).")
	must(t, err)
}

// TestP5RequeueingAfterARetryLosesNothing deletes the queue or the exchange to which messages
// return while they wait in a retry queue.
func TestP5RequeueingAfterARetryLosesNothing(t *testing.T) {
	t.Parallel()
	const n, tier = 20, retryPrefix + "20s" // on a busy machine, the deletions take more than 5 s
	for name, test := range map[string]struct {
		remove  func(*system, *service)
		restore func(*system)
	}{
		"the queue, while the service is down": {
			func(s *system, running *service) {
				running.kill()
				s.deleteQueue(mainQueue)
			},
			func(s *system) { s.startConsumer("RETRY_DELAYS=20s") },
		},
		"the requeue exchange, while the service is down": {
			func(s *system, running *service) {
				running.kill()
				s.deleteExchange(requeueExchange)
			},
			func(s *system) { s.startConsumer("RETRY_DELAYS=20s") },
		},
		"the requeue exchange, and the service declares it again": {
			func(s *system, _ *service) {
				s.deleteExchange(requeueExchange)
			},
			func(*system) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shortenDeadLetterRetry(t, sharedBroker)
			s := newSystem(t)
			copies := s.recordExchanges(tier)
			orders := newOrders(n)
			mend := s.failOrders("P0001", orders...)
			running := s.startConsumer("RETRY_DELAYS=20s")
			s.publish(orders...)
			copies.await(n)
			for _, m := range orders {
				mend(m)
			}
			test.remove(s, running)
			s.awaitExpired(tier)
			if test.restore(s); s.Failed() {
				return
			}
			s.awaitCount(s.notificationsDB, n, sentCount)
			s.wantOneEmailEach(orders...)
			s.wantNoDeadLetters()
		})
	}
}

// awaitExpired waits until the messages in a retry queue have expired. Messages without a
// route stay in the queue, but the broker does not count them as ready.
func (s *system) awaitExpired(tier string) {
	s.Helper()
	if !eventually(awaitTimeout, func() bool { return s.readyMessages(tier) == 0 }) {
		s.Fatalf("the messages in %s do not expire", tier)
	}
}
