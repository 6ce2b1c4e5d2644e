package system

import (
	"bytes"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ATimestampPostgreSQLRejectsIsADeadLetter publishes times that JSON allows and
// PostgreSQL does not. If only the database rejected them, after the e-mail, each retry would
// repeat the e-mail.
func TestP9ATimestampPostgreSQLRejectsIsADeadLetter(t *testing.T) {
	t.Parallel()
	for _, occurredAt := range []string{"2026-01-02T03:04:05.678901+16:00", "0000-01-02T03:04:05.678901Z"} {
		t.Run(occurredAt, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.startWarmConsumer(quickRetries)
			bad, orders := orderFor("bad@example.com"), newOrders(goodCount)
			bad.Body = bytes.Replace(bad.Body, []byte("2026-01-02T03:04:05.678901Z"), []byte(occurredAt), 1)
			s.publish(append([]amqp.Publishing{bad}, orders...)...)

			s.wantCount(shortTimeout, s.notificationsDB, 1+goodCount, sentCount)
			s.wantDeadLetterCount(10*time.Second, 1)
			if got := s.mail.accepted() - 1 - goodCount; got != 0 {
				t.Errorf("its e-mail was sent %d times", got)
			}
			if t.Failed() {
				return
			}
			if dead := s.takeMessages(deadLetterQueue, 1)[0]; dead.MessageId != bad.MessageId || dead.Headers["failure-code"] != "malformed" {
				t.Errorf("the dead letter is %s %v", dead.MessageId, dead.Headers)
			}
		})
	}
}
