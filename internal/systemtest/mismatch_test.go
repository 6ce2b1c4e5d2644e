package systemtest

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP10AForeignTopologyStopsTheRelayAndNotTheAPI has a queue at the broker of the name
// of our dead letters, with other properties: from the start, or declared by somebody while
// the service runs.
func TestP10AForeignTopologyStopsTheRelayAndNotTheAPI(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"from the start": false, "while it runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			var orders *service
			if running {
				orders = s.runOrders()
				orders.awaitMetric("outbox_relay_up", 1)
			}
			s.declareForeign("order-service.dlq")
			if running {
				_, err := broker.Ctl(t.Context(), "close_all_connections", "--vhost", s.vhost(), "test")
				must(t, err)
			} else {
				orders = s.runOrders()
			}

			orders.await("the relay does not run: the broker's topology is not ours")
			s.place(orders)
			if up := orders.metric("outbox_relay_up"); up != 0 {
				t.Errorf("outbox_relay_up is %v", up)
			}

			s.keepLedger() // else the event has nowhere to go
			s.at(func(c *amqp.Channel) error {
				_, err := c.QueueDelete("order-service.dlq", false, false, false)
				return err
			})
			s.awaitCount(s.orders, 1, published)
			orders.awaitMetric("outbox_relay_up", 1)
		})
	}
}

// declareForeign replaces a queue by a classic one of its name.
func (s *system) declareForeign(queue string) {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		if _, err := c.QueueDelete(queue, false, false, false); err != nil {
			return err
		}
		return declare(c, queue, "classic", nil)
	})
}
