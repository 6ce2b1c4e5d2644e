package system

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9RefusedCopiesSpendNothing makes the retry queue and the dead-letter queue refuse the
// copies of more messages than the consumer has workers. Any redelivery would be a message's last.
func TestP9RefusedCopiesSpendNothing(t *testing.T) {
	t.Parallel()
	const each, tier = workers + 2, retryPrefix + "15s"
	s := newSystem(t)
	running, first := s.startWarmConsumer("RETRY_DELAYS=15s", "DELIVERY_LIMIT=1")
	sessions := len(running.logLines("connected to the broker"))
	var later, bad []amqp.Publishing
	for range each {
		later, bad = append(later, orderFor("later@example.com")), append(bad, malformed())
	}
	s.mail.answer(onlyFor("later@example.com", refusal(452, 4, 2, 2)), accept)
	s.setPolicy(`^notification-service\.(retry\.|dlq)`, everyQueueIsFull)
	fillers := s.fillQueue(tier, fillerOrder)
	old := s.fillQueue(deadLetterQueue, malformed)

	s.publish(slices.Concat(later, bad)...)
	good := newOrders(goodCount)
	s.publish(good...)
	s.wantCount(shortTimeout, s.notificationsDB, 1+goodCount, sentCount+" AND recipient <> 'filler@example.com'")
	running.wantWaitingCopies("retry", each/2)
	running.wantWaitingCopies("dlq", each)
	running.awaitLog("no copy yet, trying again")
	letTimePass(4 * time.Second) // several attempts at each copy
	s.wantDeadLetterCount(0, len(old))

	s.clearPolicy()
	s.mail.acceptAll()
	all := slices.Concat(later, good, fillers, []amqp.Publishing{first})
	s.wantCount(2*shortTimeout, s.notificationsDB, len(all), sentCount)
	s.wantOneEmailEach(all...)
	running.wantNoWaitingCopies()
	running.awaitMetric("consumer_retries_total", each)
	running.awaitMetric("consumer_retry_exhaustions_total", 0)
	if got := len(running.logLines("connected to the broker")); got != sessions {
		t.Errorf("%d sessions, want the %d from before", got, sessions)
	}
	for _, d := range s.takeMessages(deadLetterQueue, len(old)+each) {
		isOld := slices.ContainsFunc(old, func(m amqp.Publishing) bool { return m.MessageId == d.MessageId })
		if !isOld && (d.Headers["failure-code"] != "malformed" || d.Headers["retry-count"] != int64(0)) {
			t.Errorf("the dead letter %s has %v", d.MessageId, d.Headers)
		}
	}
	s.wantQueuesEmpty()
}
