package systemtest

import (
	"bytes"
	"regexp"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// enlarged is a good order that its body makes larger than any event may be.
func enlarged(size int) amqp.Publishing {
	m := orderOf("large@example.com")
	padding := append(bytes.Repeat([]byte("x"), size), `", "product_id"`...)
	m.Body = bytes.Replace(m.Body, []byte(`"product_id"`), append([]byte(`"padding": "`), padding...), 1)
	return m
}

// TestP9ATooLargeMessageIsADeadLetterThatSaysSo has messages of 2 MiB before good ones: an
// order with too much in it, and what is no order.
func TestP9ATooLargeMessageIsADeadLetterThatSaysSo(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.scriptMail()
	_, first := s.trusted(quick)
	large, rubbish, orders := enlarged(2<<20), malformed(), ordersOf(good)
	rubbish.Body = bytes.Repeat([]byte("x"), 2<<20)
	s.emit(append([]amqp.Publishing{large, rubbish}, orders...)...)
	s.wantCount(soon, s.notifications, good, sent+" AND recipient LIKE 'customer-%'")
	s.wantDeadLetters(soon/3, 2)
	list := s.deadLetterCommand("list")
	if got := len(regexp.MustCompile(`too[_-]large`).FindAllString(list, -1)); got != 2 {
		t.Errorf("dlq list says of %d messages that they are too large, want 2:\n%s", got, list)
	}
	s.wantOneCopyEach(append(orders, first)...)
	if t.Failed() {
		return
	}
	for _, dead := range s.take(deadLetters, 2) {
		want := map[string]amqp.Publishing{large.MessageId: large, rubbish.MessageId: rubbish}[dead.MessageId]
		if !bytes.Equal(dead.Body, want.Body) {
			t.Errorf("the dead letter %s has %d bytes, want %d", dead.MessageId, len(dead.Body), len(want.Body))
		}
	}
}
