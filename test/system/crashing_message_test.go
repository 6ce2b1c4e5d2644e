package system

import (
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9AMessageThatCrashesTheConsumerHarmsNoOther has one message among many good ones that
// kills the process each time it is delivered. More messages arrive all the time, and the
// test starts the service again after each crash.
func TestP9AMessageThatCrashesTheConsumerHarmsNoOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, before int }{
		"among others, and a limit of 20":    {limit: 20, before: 40},
		"the first of all, and a limit of 5": {limit: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.declareExchange()
			crashing, others := orderFor("crash@example.com"), newOrders(80)
			dead := s.recordExchanges(deadLetterExchange)
			settings := []string{
				"DELIVERY_LIMIT=" + strconv.Itoa(test.limit), "CONSUMER_PREFETCH=32", "CONSUMER_BATCH_SIZE=32",
				"CRASH_AT=consumer.arrived", "CRASH_ON=" + crashing.MessageId,
			}
			s.startConsumer(settings...).stop() // declares the queue
			s.publish(slices.Concat(others[:test.before], []amqp.Publishing{crashing}, others[test.before:])...)

			kills := 0
			for ; kills <= 40; kills++ {
				service := s.runWithCrashPoints(settings...)
				if !service.diesBeforeDeadLetter(dead) {
					break
				}
				more := newOrders(5)
				others = append(others, more...)
				s.publish(more...)
			}
			// The broker may dead-letter the message before the test sees that the last process has died.
			s.startConsumer(settings[:len(settings)-2]...)
			s.awaitCount(s.notificationsDB, len(others), sentCount)
			s.awaitQueueDrained()
			d := s.takeMessages(deadLetterQueue, 1)[0]
			if d.MessageId != crashing.MessageId || d.Headers["x-first-death-reason"] != "delivery_limit" {
				t.Errorf("the dead letter is %s %v, want the message that reached its delivery limit", d.MessageId, d.Headers)
			}
			wantUnchanged(t, d, crashing)
			t.Logf("%d kills, %d other messages", kills, len(others))
		})
	}
}

// diesBeforeDeadLetter waits until the process dies or a message is dead-lettered, and
// reports whether the process died.
func (s *service) diesBeforeDeadLetter(dead *recorder) bool {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.After(awaitTimeout); ; {
		select {
		case <-s.ended:
			return true
		case <-ask.C:
			if len(dead.await(0)) > 0 {
				return false
			}
		case <-deadline:
			s.Fatal("the process did not die, and no message was dead-lettered")
		}
	}
}
