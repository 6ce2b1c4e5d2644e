package rabbitmq_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/servers"
)

// TestAQueueThatNeverConfirmsMakesNothingElseUnknown publishes one message to a queue whose process
// is suspended, together with many messages to a healthy queue.
func TestAQueueThatNeverConfirmsMakesNothingElseUnknown(t *testing.T) {
	t.Parallel()
	server := servers.RabbitMQ(t)
	b := newBrokerTestAt(t, server.URL("/"))
	exchange, _ := b.route("healthy", nil)
	silent := b.queue(nil)
	b.withChannel(func(c *amqp.Channel) error { return c.QueueBind(silent, "silent", exchange, false, nil) })
	batch := to(exchange, slices.Repeat([]string{"healthy"}, 500)...)
	p := b.publisher(b.session(), len(batch))
	// The broker's channel waits for a queue that it has not met before.
	expect(t, publishAll(t, p, to(exchange, "silent")...), publish.Confirmed)

	b.suspend(server, silent)
	batch[0].RoutingKey = "silent" // the first, so that the timeout finds all others confirmed
	outcomes := slices.Repeat([]publish.Outcome{publish.Confirmed}, len(batch))
	outcomes[0] = publish.Unknown
	expect(t, publishWithin(t, 10*time.Second, p, batch...), outcomes...)
}

// suspend stops the process of a queue. The broker still accepts messages for it.
func (b brokerTest) suspend(server *servers.RabbitMQServer, queue string) {
	b.Helper()
	expression := fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
		sys:suspend(amqqueue:get_pid(Q)).`, queue)
	if output, err := server.Ctl(b.Context(), "eval", expression); err != nil {
		b.Fatalf("%v: %s", err, output)
	}
}
