package systemtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9AFullRetryQueueHoldsUpOnlyWhatMustRetry: a policy lets a retry queue hold one
// message, and more than there are workers need it. They wait, and the others do not.
func TestP9AFullRetryQueueHoldsUpOnlyWhatMustRetry(t *testing.T) {
	t.Parallel()
	const tier, refused = retry + "15s", workers + 4
	for name, lift := range map[string]func(*system){
		"and the policy is raised": func(s *system) { s.setPolicy(retryQueues, `{"max-length": 100000}`) },
		// RabbitMQ 3.10 goes on refusing on the channels that it has refused on.
		"and the policy is cleared": (*system).clearPolicy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			mail := s.scriptMail()
			running, first := s.trusted("RETRY_DELAYS=15s")
			var later []amqp.Publishing
			for range refused {
				later = append(later, orderOf("later@example.com"))
			}
			orders := ordersOf(good)
			mail.answer(onlyFor("later@example.com", refuseAll(452, 4, 2, 2)), accept)
			s.setPolicy(retryQueues, `{"max-length": 1}`)
			fillers := s.fillWithOrders(tier)
			s.emit(append(later, orders...)...)

			s.wantCount(10*time.Second, s.notifications, 1+good, sent+" AND recipient <> 'filler@example.com'")
			running.wantWaitingCopies("retry", refused/2)
			s.wantDeadLetters(0, 0)

			lift(s)
			mail.takeAll()
			all := slices.Concat(later, orders, fillers, []amqp.Publishing{first})
			if !s.wantCount(45*time.Second, s.notifications, len(all), sent) {
				return
			}
			s.wantNothingLeft()
			s.wantOneCopyEach(all...)
			s.wantDeadLetters(0, 0)
			running.wantNoWaitingCopies()
		})
	}
}

const policy = "full"

const retryQueues = `^notification-service\.retry\.`

// setPolicy applies to the queues whose names match.
func (s *system) setPolicy(queues, definition string) {
	s.Helper()
	_, err := s.broker.Ctl(s.Context(), "set_policy", "-p", s.vhost(), policy, queues, definition, "--apply-to", "queues")
	must(s.T, err)
}

func (s *system) clearPolicy() {
	s.Helper()
	_, err := s.broker.Ctl(s.Context(), "clear_policy", "-p", s.vhost(), policy)
	must(s.T, err)
}

// fillWithOrders publishes good orders to a queue until it takes no more, and returns those
// that it took.
func (s *system) fillWithOrders(queue string) (orders []amqp.Publishing) {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		for range 100 {
			m := orderOf("filler@example.com")
			confirmation, err := c.PublishWithDeferredConfirm("", queue, true, false, m)
			if err != nil || !confirmation.Wait() {
				return err
			}
			orders = append(orders, m)
		}
		return fmt.Errorf("%s does not fill", queue)
	})
	return orders
}
