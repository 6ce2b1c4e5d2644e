package system

import (
	"bytes"
	"regexp"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// oversized returns a good order with a body that is larger than any event may be.
func oversized(size int) amqp.Publishing {
	m := orderFor("large@example.com")
	padding := append(bytes.Repeat([]byte("x"), size), `", "product_id"`...)
	m.Body = bytes.Replace(m.Body, []byte(`"product_id"`), append([]byte(`"padding": "`), padding...), 1)
	return m
}

// TestP9ADeadLetterSaysThatItsMessageIsTooLarge publishes messages of 2 MiB before good ones:
// one is an order with padding, the other is not an order.
func TestP9ADeadLetterSaysThatItsMessageIsTooLarge(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, first := s.startWarmConsumer()
	large, noOrder, orders := oversized(2<<20), malformed(), newOrders(goodCount)
	noOrder.Body = bytes.Repeat([]byte("x"), 2<<20)
	s.publish(append([]amqp.Publishing{large, noOrder}, orders...)...)
	s.wantCount(awaitTimeout, s.notificationsDB, 1+goodCount, sentCount)
	s.wantDeadLetterCount(awaitTimeout, 2)
	list := s.runCommand(notificationService, "dlq", "list")
	if got := len(regexp.MustCompile(`too[_-]large`).FindAllString(list, -1)); got != 2 {
		t.Errorf("dlq list reports %d messages as too large, want 2:\n%s", got, list)
	}
	s.wantOneEmailEach(append(orders, first)...)
	if t.Failed() {
		return
	}
	for _, dead := range s.takeMessages(deadLetterQueue, 2) {
		want := map[string]amqp.Publishing{large.MessageId: large, noOrder.MessageId: noOrder}[dead.MessageId]
		if !bytes.Equal(dead.Body, want.Body) {
			t.Errorf("the dead letter %s has %d bytes, want %d", dead.MessageId, len(dead.Body), len(want.Body))
		}
	}
}
