package systemtest

import (
	"bytes"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ATimeThatPostgreSQLRefusesIsADeadLetter: the database must not refuse the time after
// the e-mail is sent, and so repeat it.
func TestP9ATimeThatPostgreSQLRefusesIsADeadLetter(t *testing.T) {
	t.Parallel()
	for _, occurred := range []string{"2026-01-02T03:04:05.678901+16:00", "0000-01-02T03:04:05.678901Z"} {
		t.Run(occurred, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			mail := s.scriptMail()
			s.trusted(quick)
			bad, orders := orderOf("bad@example.com"), ordersOf(good)
			bad.Body = bytes.Replace(bad.Body, []byte("2026-01-02T03:04:05.678901Z"), []byte(occurred), 1)
			s.emit(append([]amqp.Publishing{bad}, orders...)...)

			s.wantCount(soon, s.notifications, 1+good, sent)
			s.wantDeadLetters(10*time.Second, 1)
			if got := mail.copies() - 1 - good; got != 0 {
				t.Errorf("its e-mail was sent %d times", got)
			}
			if t.Failed() {
				return
			}
			if dead := s.take(deadLetters, 1)[0]; dead.MessageId != bad.MessageId || dead.Headers["failure-code"] != "malformed" {
				t.Errorf("the dead letter is %s %v", dead.MessageId, dead.Headers)
			}
		})
	}
}
