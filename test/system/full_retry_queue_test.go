package system

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9AFullRetryQueueDelaysOnlyRetries sets a policy that lets a retry queue hold one
// message. More messages than there are workers need a retry. They wait; all others do not.
func TestP9AFullRetryQueueDelaysOnlyRetries(t *testing.T) {
	t.Parallel()
	const tier, refused = retryPrefix + "15s", workers + 4
	for name, lift := range map[string]func(*system){
		"and the policy is raised": func(s *system) { s.setPolicy(retryQueues, `{"max-length": 100000}`) },
		// RabbitMQ 3.10 still rejects messages on the channels on which it has rejected some.
		"and the policy is cleared": (*system).clearPolicy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			running, first := s.startWarmConsumer("RETRY_DELAYS=15s")
			var later []amqp.Publishing
			for range refused {
				later = append(later, orderFor("later@example.com"))
			}
			orders := newOrders(goodCount)
			s.mail.answer(onlyFor("later@example.com", refusal(452, 4, 2, 2)), accept)
			s.setPolicy(retryQueues, `{"max-length": 1}`)
			fillers := s.fillQueue(tier, fillerOrder)
			s.publish(append(later, orders...)...)

			s.wantCount(10*time.Second, s.notificationsDB, 1+goodCount, sentCount+" AND recipient <> 'filler@example.com'")
			running.wantWaitingCopies("retry", refused/2)
			s.wantDeadLetterCount(0, 0)

			lift(s)
			s.mail.acceptAll()
			all := slices.Concat(later, orders, fillers, []amqp.Publishing{first})
			if !s.wantCount(45*time.Second, s.notificationsDB, len(all), sentCount) {
				return
			}
			s.wantQueuesEmpty()
			s.wantOneEmailEach(all...)
			s.wantDeadLetterCount(0, 0)
			running.wantNoWaitingCopies()
		})
	}
}

const retryQueues = `^notification-service\.retry\.`

func fillerOrder() amqp.Publishing { return orderFor("filler@example.com") }
