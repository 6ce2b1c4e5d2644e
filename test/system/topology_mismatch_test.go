package system

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP10ATopologyMismatchStopsOnlyTheRelay declares the relay's exchange with another type, before
// the service starts or while it runs.
func TestP10ATopologyMismatchStopsOnlyTheRelay(t *testing.T) {
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
			s.withChannel(func(c *amqp.Channel) error {
				must(t, c.ExchangeDelete(eventsExchange, false, false))
				return c.ExchangeDeclare(eventsExchange, "fanout", true, false, false, false, nil)
			})
			if running {
				_, err := s.broker.Ctl(t.Context(), "close_all_connections", "--vhost", s.vhost(), "test")
				must(t, err)
			} else {
				orders = s.runOrders()
			}

			orders.awaitLog("the broker has something of this name with other properties, trying again")
			s.place(orders)
			if up := orders.metric("outbox_relay_up"); up != 0 {
				t.Errorf("outbox_relay_up is %v", up)
			}

			s.deleteExchange(eventsExchange)
			s.bindAuditQueue() // otherwise the event has no route
			s.awaitCount(s.ordersDB, 1, publishedCount)
			orders.awaitMetric("outbox_relay_up", 1)
		})
	}
}
